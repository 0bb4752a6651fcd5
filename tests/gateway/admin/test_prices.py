"""The price book as an administrator keeps it: drafted, approved, active, never changed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.prices.book import Prices
from billing.prices.versions import load_book
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

NEVER_S = 4_000_000_000


def rates(usd: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    tokens: list[dict[str, Any]] = [
        {"model": "tale", "tier": "default", "component": component, "usd_per_mtok": usd}
        for component in ("input", "output")
    ]
    return [*tokens, *more]


def rate(component: str, usd: str, **more: Any) -> dict[str, Any]:
    return {
        "model": "tale",
        "tier": "default",
        "component": component,
        "usd_per_mtok": usd,
    } | more


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def admin(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    target = f"/admin/v1/prices{path}"
    status, told = await ask(one.app, method, target, raw, "admin")
    if status < 300:
        assert_described(one.app, method, target, status, told)
    return status, told


async def test_a_version_goes_from_a_draft_over_its_approval_into_force(one: Edge) -> None:
    status, draft = await admin(one, "POST", "", {"rates": rates("1"), "status": "draft"})
    assert (status, draft["status"], draft["effective_from"]) == (201, "draft", None)
    path = f"/{draft['id']}"
    status, told = await admin(one, "POST", f"{path}/activate", {})
    assert (status, told["error"]["code"]) == (409, "conflict")
    _, changed = await admin(one, "PUT", path, {"rates": rates("2"), "note": "dearer"})
    assert {r["usd_per_mtok"] for r in changed["rates"]} == {"2.00"}
    _, approved = await admin(one, "POST", f"{path}/approve")
    assert (approved["status"], approved["approved_by"]) == ("approved", "admin")
    for method, sent in (("PUT", {"rates": rates("3")}), ("DELETE", None)):
        assert (await admin(one, method, path, sent))[0] == 409
    _, active = await admin(one, "POST", f"{path}/activate", {"effective_from_s": NEVER_S})
    assert (active["status"], active["activated_by"]) == ("active", "admin")
    assert (await admin(one, "GET", path)) == (200, active)
    _, listed = await admin(one, "GET", "?status=active")
    assert listed["data"] == [active]


async def test_what_is_not_there_or_does_not_fit_is_refused_in_words(one: Edge) -> None:
    for method, path, sent, status, words in (
        ("GET", "/pv_none", None, 404, "no price version"),
        ("POST", "/pv_none/approve", None, 404, "no price version"),
        ("GET", "/pv_none/difference?to=pv_other", None, 404, "no price version"),
        ("POST", "", {"rates": []}, 400, "leave every model unpriced"),
        ("POST", "", {"rates": rates("1"), "organization": "org_none"}, 404, "org_none"),
        ("POST", "", {"rates": rates("1"), "discounts": [{"basis_points": 5}]}, 400, "discounts"),
        ("POST", "", {"rates": rates("1", rate("gpu_ms", "1"))}, 400, "needs a most"),
        (
            "POST",
            "",
            {"rates": rates("2", rate("input", "1", prompt_from_tokens=9))},
            400,
            "costs less",
        ),
        (
            "POST",
            "",
            {"rates": rates("1"), "status": "draft", "effective_from_s": NEVER_S},
            400,
            "A draft has no instant",
        ),
    ):
        found, told = await admin(one, method, path, sent)
        assert (found, words in told["error"]["message"]) == (status, True), told


async def test_an_organization_has_an_agreement_of_its_own(one: Edge) -> None:
    await admin(one, "POST", "", {"rates": rates("1")})
    agreement = {
        "organization": ORGANIZATION_ID,
        "rates": [],
        "discounts": [{"basis_points": 2500}, {"model": "vectors", "basis_points": 0}],
    }
    status, told = await admin(one, "POST", "", agreement)
    assert (status, told["organization"]) == (201, ORGANIZATION_ID)
    assert {off["model"]: off["basis_points"] for off in told["discounts"]} == {
        None: 2500,
        "vectors": 0,
    }
    _, listed = await admin(one, "GET", f"?organization={ORGANIZATION_ID}")
    assert [version["id"] for version in listed["data"]] == [told["id"]]
    book = load_book(one.parts.ledger)
    at_us = round(one.parts.outside.clock() * 1e6)
    own, everybodys = (
        book.lookup("tale", "default", False, at_us, org) for org in (ORGANIZATION_ID, "")
    )
    assert isinstance(own, Prices) and isinstance(everybodys, Prices)
    assert (own.input, everybodys.input) == (750_000_000, 1_000_000_000)


async def test_a_difference_tells_both_prices(one: Edge) -> None:
    gpu = rate("gpu_ms", "0.5", units_max=1000)
    longer = rate("output", "4", prompt_from_tokens=100)
    _, before = await admin(one, "POST", "", {"rates": rates("1"), "status": "draft"})
    _, after = await admin(one, "POST", "", {"rates": rates("2", gpu, longer), "status": "draft"})
    _, told = await admin(one, "GET", f"/{before['id']}/difference?to={after['id']}")
    assert [
        (
            one["component"],
            one["prompt_from_tokens"],
            one["usd_per_mtok_before"],
            one["usd_per_mtok_after"],
        )
        for one in told["data"]
    ] == [
        ("gpu_ms", 0, None, "0.50"),
        ("input", 0, "1.00", "2.00"),
        ("output", 0, "1.00", "2.00"),
        ("output", 100, None, "4.00"),
    ]


async def test_a_draft_that_is_not_wanted_is_dropped(one: Edge) -> None:
    _, draft = await admin(one, "POST", "", {"rates": rates("1"), "status": "draft"})
    assert (await admin(one, "DELETE", f"/{draft['id']}"))[0] == 200
    assert (await admin(one, "GET", f"/{draft['id']}"))[0] == 404
