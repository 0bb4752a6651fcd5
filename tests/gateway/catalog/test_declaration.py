"""A document is read whole: every mistake, each with its place."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.declaration import BadDeclaration, read_document, read_file

MODEL = {"name": "tale", "path": "here"}
POOL = {"name": "tale-reserved", "model": "tale"}
EXTERNAL = POOL | {
    "capacity_class": "external",
    "base_url": "https://api.example.com/v1",
    "upstream_model": "their-tale",
}
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


SIMULATED = POOL | {"engine": "simulated", "hardware": "h100"}
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
        {"pools": [{k: v for k, v in EXTERNAL.items() if k != "base_url"}]},
        "pools.0.base_url",
    ),
    "no model of an external pool": (
        {"pools": [{k: v for k, v in EXTERNAL.items() if k != "upstream_model"}]},
        "pools.0.upstream_model",
    ),
    "a model elsewhere of an own pool": (
        {"pools": [POOL | {"upstream_model": "their-tale"}]},
        "pools.0.upstream_model",
    ),
    "more at the start than at most": (
        {"pools": [POOL | {"initial_replicas": 2}]},
        "pools.0.max_replicas",
    ),
    "more than a column holds": ({"pools": [POOL | {"max_ongoing": 2**31}]}, "pools.0.max_ongoing"),
    "an offer nobody makes": ({"pools": [POOL | {"offer": "lease"}]}, "pools.0.offer"),
    "a speed of none": ({"pools": [SIMULATED | {"speed": 0}]}, "pools.0.speed"),
    "a speed backwards": ({"pools": [SIMULATED | {"speed": -1.0}]}, "pools.0.speed"),
    "a speed of a real engine": (
        {"pools": [POOL | {"engine": "continuous", "speed": 2.0}]},
        "pools.0.speed",
    ),
    "a speed of the engine there is": ({"pools": [POOL | {"speed": 2.0}]}, "pools.0.speed"),
    "a simulated server outside": (
        {"pools": [EXTERNAL | {"engine": "simulated"}]},
        "pools.0.engine",
    ),
    "hardware without a name": ({"pools": [POOL | {"hardware": "H 100"}]}, "pools.0.hardware"),
    "an own pool that keeps prompts": (
        {"pools": [POOL | {"retention_days": 30}]},
        "pools.0.retention_days",
    ),
    "an own pool with a time for its first token": (
        {"pools": [POOL | {"first_token_timeout_s": 5.0}]},
        "pools.0.first_token_timeout_s",
    ),
    "an own pool with a time of silence": (
        {"pools": [POOL | {"idle_timeout_s": 5.0}]},
        "pools.0.idle_timeout_s",
    ),
    "an own pool with a time to connect": (
        {"pools": [POOL | {"connect_timeout_s": 5.0}]},
        "pools.0.connect_timeout_s",
    ),
    "a server that is given no time": (
        {"pools": [EXTERNAL | {"first_token_timeout_s": 0}]},
        "pools.0.first_token_timeout_s",
    ),
    "an own pool that trains": ({"pools": [POOL | {"trains": True}]}, "pools.0.trains"),
    "a word for whether it trains": ({"pools": [EXTERNAL | {"trains": "no"}]}, "pools.0.trains"),
    "two prices from one instant": (
        {"pools": [POOL | {"prices": [{"from": "2027-01-01"}, {"from": 1_798_761_600}]}]},
        "pools.0.prices",
    ),
    "a price from no day": (
        {"pools": [POOL | {"prices": [{"from": "soon"}]}]},
        "pools.0.prices.0.from",
    ),
    "a price of no amount": (
        {"pools": [POOL | {"prices": [{"from": "2027-01-01", "cost_usd_per_s": "-1"}]}]},
        "pools.0.prices.0.cost_usd_per_s",
    ),
    "a long pool name": ({"pools": [POOL | {"name": "p" * 64}]}, "pools.0.name"),
    "no list": ({"models": MODEL}, "models"),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize(("document", "place"), WRONG.values(), ids=WRONG.keys())
def test_mistake_has_a_place(document: dict[str, Any], place: str) -> None:
    assert places(document) == [place]


def test_external_pool_without_its_servers_name_of_the_model_is_told_how_to_say_it() -> None:
    pool = {k: v for k, v in EXTERNAL.items() if k != "upstream_model"}
    [mistake] = read_document({"pools": [pool]}).mistakes
    assert str(mistake) == (
        "pools.0.upstream_model: an external pool needs the name that its server knows the model "
        'by, for example upstream_model = "gpt-4o-mini"'
    )
    assert not read_document({"pools": [EXTERNAL]}).mistakes


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


SHAPE = {"params": 70_600_000_000, "layers": 80, "heads": 64, "kv_heads": 8, "head_dim": 128}
MEASURED = {
    **{"use_case": "support", "score": 0.9, "method": "judged", "samples": 400},
    "validated_at": "2026-11-02",
}
VARIANT = {"model": "tale", "name": "int8", "quantization": "int8", "shape": SHAPE}
WRONG_VARIANTS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a precision nobody stores in": ([VARIANT | {"quantization": "int3"}], ".0.quantization"),
    "neither a shape nor a path": ([VARIANT | {"shape": None}], ".0.shape"),
    "more active weights than all": (
        [VARIANT | {"shape": SHAPE | {"active_params": 80_000_000_000}}],
        ".0.shape",
    ),
    "a use case twice": ([VARIANT | {"quality": [MEASURED, MEASURED]}], ".0.quality"),
    "a score above one": (
        [VARIANT | {"quality": [MEASURED | {"score": 1.5}]}],
        ".0.quality.0.score",
    ),
    "validated on nothing": (
        [VARIANT | {"quality": [MEASURED | {"samples": 0}]}],
        ".0.quality.0.samples",
    ),
    "validated on no day": (
        [VARIANT | {"quality": [MEASURED | {"validated_at": "lately"}]}],
        ".0.quality.0.validated_at",
    ),
    "a variant twice": ([VARIANT, VARIANT], ".1"),
    "no GPU": ([VARIANT | {"gpus_per_replica": 0}], ".0.gpus_per_replica"),
}


@pytest.mark.parametrize(("variants", "place"), WRONG_VARIANTS.values(), ids=WRONG_VARIANTS.keys())
def test_mistake_of_a_variant_has_a_place(variants: list[dict[str, Any]], place: str) -> None:
    assert places({"variants": variants}) == [f"variants{place}"]


def test_instant_of_a_file_is_read_as_a_date_a_text_or_seconds() -> None:
    written = [date(2026, 11, 2), "2026-11-02T00:00:00Z", 1_793_577_600]
    rows = [
        VARIANT | {"name": f"v{n}", "quality": [MEASURED | {"validated_at": each}]}
        for n, each in enumerate(written)
    ]
    read = read_document({"variants": rows})
    assert not read.mistakes
    instants = {each.quality[0].validated_at for each in read.variants.values()}
    assert instants == {"2026-11-02T00:00:00+00:00"}
