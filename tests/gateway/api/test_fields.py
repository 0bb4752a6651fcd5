"""What an administrator may say: nothing that its column, script or clock cannot hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pytest
from pydantic import BaseModel, ValidationError

from billing.money import usd
from billing.written_usd import COST_NANOUSD_MAX
from gateway.admin.invoices.schemas import OneOffLine
from gateway.admin.keys.schemas import NewKey
from gateway.admin.limits.schemas import LimitsBody
from gateway.admin.models.schemas import ModelBody
from gateway.admin.organizations.schemas import NewOrganization, OrganizationChange
from gateway.admin.pools.schemas import PoolBody
from gateway.admin.prices.schemas import PriceVersionBody
from gateway.admin.wrong_keys import WrongKeys
from gateway.api.schemas import Body
from gateway.app import create_app
from gateway.fields import DAY_S, EXACT_MAX, INTEGER_MAX
from gateway.instants import LAST_EPOCH_S, iso
from gateway.parts import Outside
from gateway.settings import Settings
from tests.gateway.api.asgi import ask

POOL = {"model": "m", "capacity_class": "spot"}
EXTERNAL = {
    "model": "m",
    "capacity_class": "external",
    "base_url": "https://api.example.com/v1",
    "upstream_model": "their-m",
}
MODEL = {"context_tokens": 1, "max_output_tokens": 1, "size_rank": 1, "quality": 0.5}
MODEL_BODY = json.dumps(MODEL).encode()
RATE = {"model": "m", "tier": "flex", "component": "input", "usd_per_mtok": "1"}

TOO_MUCH: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (NewKey, {"project": "p", "name": "k", "expires_at": LAST_EPOCH_S + 1}),
    (LimitsBody, {"requests_per_minute": EXACT_MAX + 1}),
    (LimitsBody, {"token_burst": 0}),
    (ModelBody, MODEL | {"context_tokens": INTEGER_MAX + 1}),
    (ModelBody, MODEL | {"context_tokens": 0}),
    (PoolBody, POOL | {"max_replicas": INTEGER_MAX + 1}),
    (PoolBody, POOL | {"max_ongoing": 0}),
    (PoolBody, POOL | {"idle_s": float("inf")}),
    (PoolBody, POOL | {"cold_start_s": 1e308}),
    (PoolBody, POOL | {"cost_usd_per_s": usd(COST_NANOUSD_MAX + 1)}),
    (PoolBody, EXTERNAL | {"base_url": "file:///etc/passwd"}),
    (PoolBody, EXTERNAL | {"base_url": None}),
    (PoolBody, EXTERNAL | {"upstream_model": None}),
    (PoolBody, EXTERNAL | {"upstream_model": " "}),
    (PoolBody, POOL | {"upstream_model": "their-m"}),
    (PoolBody, {"model": "m"}),
    (PriceVersionBody, {"rates": [RATE], "effective_from_s": 1e30}),
    (NewOrganization, {"name": " \t ", "slug": "x"}),
    (NewOrganization, {"name": "two\nlines", "slug": "x"}),
    (NewOrganization, {"name": "\x00", "slug": "x"}),
]


@pytest.mark.parametrize(("kind", "sent"), TOO_MUCH)
def test_what_cannot_be_kept_is_refused(kind: type[BaseModel], sent: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        kind(**sent)


def numbers_of(kind: type[BaseModel]) -> dict[str, dict[str, Any]]:
    """The fields of a body that are numbers, and nothing else but null."""
    found = {}
    for name, schema in kind.model_json_schema()["properties"].items():
        kinds = {each.get("type") for each in schema.get("anyOf", [schema])}
        if kinds <= {"integer", "number", "null"}:
            found[name] = schema
    return found


@pytest.mark.parametrize("value", [False, True, "1"])
def test_number_is_no_boolean_and_no_text(value: object) -> None:
    """`{"concurrency": false}` was a limit of none at once. A query is text."""
    fields = [
        (kind, name)
        for kind in kinds_of(Body)
        if not kind.__name__.endswith("Query")
        for name in numbers_of(kind)
    ]
    assert (OneOffLine, "quantity") in fields
    for kind, name in fields:
        with pytest.raises(ValidationError) as refused:
            kind.model_validate({name: value})
        places = [error["loc"] for error in refused.value.errors()]
        assert (name,) in places, (kind, name)


@pytest.mark.parametrize("value", [False, True, 0, 5, 5.0])
def test_money_is_a_text(value: object) -> None:
    """A number is no amount in nano-USD: only answers are made of those."""
    with pytest.raises(ValidationError, match="valid string"):
        OrganizationChange.model_validate({"credit_limit_usd": value})


def test_no_body_is_read_as_ours() -> None:
    assert not [body for body in kinds_of(Body) if body.model_config.get("from_attributes")]


def kinds_of(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds_of(each)


def test_last_instant_can_be_told() -> None:
    assert iso(LAST_EPOCH_S * 1_000_000) == "9999-12-31T23:59:59+00:00"


def test_dearest_start_of_a_replica_fits_into_a_score() -> None:
    assert round(COST_NANOUSD_MAX * DAY_S) < 2**63


def test_name_loses_the_blanks_around_it_and_keeps_its_letters() -> None:
    assert NewOrganization(name=" Ünï 🦊 ", slug="x").name == "Ünï 🦊"


@pytest.mark.parametrize(
    ("method", "path", "body", "message"),
    [
        ("POST", "/admin/v1/projects", b"{bad", "The body is not JSON: "),
        ("PUT", "/admin/v1/limits/org_1", b"{}", "scope: String should match pattern"),
        ("PUT", "/admin/v1/budgets/key:1", b'{"limit_usd": "x"}', "limit_usd: not an amount"),
        ("PUT", "/admin/v1/models/auto", MODEL_BODY, "'auto' asks the router to choose"),
        ("GET", "/admin/v1/usage?end_time=9999999999999", b"", "end_time: Input should be less"),
    ],
)
async def test_wrong_words_of_an_administrator_are_answered_with_the_place(
    tmp_path: Path, method: str, path: str, body: bytes, message: str
) -> None:
    settings = Settings(data=tmp_path, admin_key="admin")
    outside = Outside(lambda: 1e9, Random(1), Random(2).randbytes, {})
    app = create_app(settings, outside)
    app.state.parts = Mock(settings=settings, outside=outside, wrong_keys=WrongKeys())
    status, answer = await ask(app, method, path, body, "admin")
    assert (status, answer["error"]["message"][: len(message)]) == (400, message)
