"""A document is read whole: every mistake, each with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.admin.declaration import BadDeclaration, read_document, read_file

MODEL = {"name": "tale", "path": "here"}
POOL = {"name": "tale-reserved", "model": "tale"}
PRICE = {"model": "tale", "input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}


def places(document: dict[str, Any]) -> list[str]:
    return [mistake.place for mistake in read_document(document).mistakes]


def test_every_mistake_is_told_with_its_place() -> None:
    document = {
        "modles": [],
        "models": [{"name": "a b", "contxt": 1}, MODEL | {"quality": 2}],
        "pools": [POOL | {"max_replicas": 0}, {"name": "x"}],
        "prices": [{"model": "tale", "input_usd_per_mtok": "-1"}],
    }
    assert places(document) == [
        "modles",
        "models.0.name",
        "models.0.contxt",
        "models.1.quality",
        "pools.0.max_replicas",
        "pools.1.model",
        "prices.0.input_usd_per_mtok",
        "prices.0.output_usd_per_mtok",
    ]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a model twice": ({"models": [MODEL, MODEL]}, "models.1"),
    "a pool twice": ({"pools": [POOL, POOL]}, "pools.1"),
    "a price twice": ({"prices": [PRICE, PRICE]}, "prices.1"),
    "the name that asks the router": ({"models": [MODEL | {"name": "auto"}]}, "models.0.name"),
    "path and hub": ({"models": [MODEL | {"hub": "a/b"}]}, "models.0.hub"),
    "a revision of a path": ({"models": [MODEL | {"revision": "x"}]}, "models.0.revision"),
    "a hub name that climbs": ({"models": [{"name": "a", "hub": "../b"}]}, "models.0.hub"),
    "no such tier": ({"prices": [PRICE | {"tier": "gold"}]}, "prices.0.tier"),
    "no such engine": ({"pools": [POOL | {"engine": "steam"}]}, "pools.0.engine"),
    "a URL of an own pool": ({"pools": [POOL | {"base_url": "http://x"}]}, "pools.0.base_url"),
    "no URL of an external pool": (
        {"pools": [POOL | {"capacity_class": "external"}]},
        "pools.0.base_url",
    ),
    "more at the start than at most": (
        {"pools": [POOL | {"initial_replicas": 2}]},
        "pools.0.max_replicas",
    ),
    "more than a column holds": ({"pools": [POOL | {"max_ongoing": 2**31}]}, "pools.0.max_ongoing"),
    "a long pool name": ({"pools": [POOL | {"name": "p" * 64}]}, "pools.0.name"),
    "no list": ({"models": MODEL}, "models"),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize(("document", "place"), WRONG.values(), ids=WRONG.keys())
def test_mistake_has_a_place(document: dict[str, Any], place: str) -> None:
    assert places(document) == [place]


def test_external_model_says_its_limits_itself() -> None:
    wanted = ["models.0.context_tokens", "models.0.max_output_tokens"]
    assert places({"models": [{"name": "far"}]}) == wanted


def test_file_that_is_no_toml_or_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    with pytest.raises(BadDeclaration, match="No such file"):
        read_file(file)
    file.write_text("[[models]\n")
    with pytest.raises(BadDeclaration, match="not valid TOML"):
        read_file(file)
