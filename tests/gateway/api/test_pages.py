"""Every list of the admin API comes in pages, none ends silently, and no row is told twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from sqlmodel import Session

from gateway.api.pages import LIMIT_MAX, Key, PageRequest, Source, read_page
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from gateway.errors import ApiError
from gateway.instants import instant_us
from gateway.tenants.tables import Organization
from tests.gateway.api.asgi import ask
from tests.gateway.edge import Edge, body, edge
from tests.gateway.outages import ledger
from tests.redis_server import RedisServer

REPORTS = ("/admin/v1/usage", "/admin/v1/margins")
"""Their pages may be longer."""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def get(one: Edge, path: str) -> tuple[int, Any]:
    return await ask(one.app, "GET", path, b"", "admin")


async def put(one: Edge, method: str, path: str, sent: Any) -> tuple[int, Any]:
    return await ask(one.app, method, f"/admin/v1/{path}", json.dumps(sent).encode(), "admin")


def among(rows: Sequence[int]) -> Source[int]:
    def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, int]]:
        return [((row,), row) for row in rows if behind is None or (row,) > behind][:limit]

    return Source((int,), read)


@given(st.lists(st.lists(st.integers(0, 99), unique=True).map(sorted)), st.integers(1, 20))
def test_pages_are_the_list(sources: list[list[int]], limit: int) -> None:
    after, told = None, []
    while True:
        page = read_page(PageRequest(limit, after), *map(among, sources))
        told += page.data
        assert len(page.data) == limit or page.after is None
        after = page.after
        if after is None:
            break
    assert told == [row for rows in sources for row in rows]


@given(st.one_of(st.text(), st.just("WzAsMSwyXQ=="), st.just("Wzkse31d"), st.just("WzAsICJhIl0=")))
def test_what_is_no_after_of_a_list_is_refused(after: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_page(PageRequest(1, after), among([1, 2]))
    assert (refused.value.status, refused.value.param) == (400, "after")


def lists_of(one: Edge) -> dict[str, Any]:
    """The description of every route of the administrator that answers `data`."""
    described = one.app.openapi()
    known = described["components"]["schemas"]
    found = {}
    for path, operations in described["paths"].items():
        if not path.startswith("/admin/") or "get" not in operations or "{" in path:
            continue
        content = operations["get"]["responses"]["200"].get("content", {})
        schema = content.get("application/json", {}).get("schema", {})
        schema = known.get(schema.get("$ref", "").rpartition("/")[2], schema)
        if "data" in schema.get("properties", {}):
            found[path] = operations["get"] | {"schema": schema}
    return found


async def test_every_list_says_whether_there_is_more_and_takes_a_limit(one: Edge) -> None:
    found = lists_of(one)
    assert len(found) >= 18
    for path, operation in found.items():
        asked = {parameter["name"] for parameter in operation["parameters"]}
        assert asked >= {"limit", "after"}, path
        assert operation["schema"]["properties"].keys() >= {"object", "data", "has_more", "after"}


async def test_every_list_told_row_by_row_is_the_list(
    one: Edge, redis: Redis, tmp_path: Path
) -> None:
    """Many ended at a thousand rows without a word, in no order."""
    await _fill(one)
    for _ in range(3):
        assert (await one.post(body())).status == 200
    async with ledger(redis, tmp_path):
        await one.settled()
        rid = (await one.post(body())).headers["x-request-id"]
        await get(one, f"/admin/v1/requests/{rid}")
    several = set()
    for path in lists_of(one):
        many = f"{path}?group_by=model&group_by=key" if path == REPORTS[0] else f"{path}?"
        _, whole = await get(one, many)
        assert (whole["has_more"], whole["after"]) == (False, None), path
        rows, after = [], ""
        while after is not None:
            status, page = await get(one, f"{many}&limit=1{after and f'&after={after}'}")
            assert (status, page["object"]) == (200, "list"), (path, page)
            assert page["has_more"] == (page["after"] is not None)
            rows += page["data"]
            after = page["after"]
        assert _lasting(rows) == _lasting(whole["data"]), path
        several |= {path} if len(rows) > 1 else set()
        for wrong in ("limit=0", "after=x%00y", *(["limit=1001"] if path not in REPORTS else [])):
            status, told = await get(one, f"{path}?{wrong}")
            assert (status, told["error"]["param"]) == (400, wrong.partition("=")[0]), path
    assert len(several) >= 11, several


def _lasting(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """But for a count of the last hour, which a gateway reads anew every ten seconds."""
    return [{name: row[name] for name in row if name != "calls_per_start"} for row in rows]


async def _fill(one: Edge) -> None:
    """At least two rows of what has a table of ours."""
    scopes = f"key:{KEY_ID}", f"org:{ORGANIZATION_ID}"
    organizations = [ORGANIZATION_ID]
    for name in ("a", "b"):
        _, told = await put(one, "POST", "organizations", {"name": name, "slug": name})
        organizations.append(told["id"])
        await put(one, "POST", "projects", {"organization": told["id"], "name": name})
        await put(one, "POST", "keys", {"project": PROJECT_ID, "name": name})
        grant = {"organization": ORGANIZATION_ID, "category": "promotional", "amount_usd": "1"}
        await put(one, "POST", "credits", grant)
        window = {"kind": "calendar", "unit": "day"}
        budget = {"scope": scopes[0], "name": name, "limit_usd": "9", "window": window}
        await put(one, "POST", "budgets", budget)
    for scope in scopes:
        await put(one, "PUT", f"entitlements/{scope}", {})
        await put(one, "PUT", f"limits/{scope}", {"requests_per_minute": 1000})
        await put(one, "PUT", f"limits/{scope}/model:tale", {"requests_per_minute": 1000})
        await put(one, "PUT", f"budgets/{scope}", {"limit_usd": "9"})
    for organization in organizations:
        await put(one, "PUT", f"outages/{organization}", {"mode": "deny"})


async def test_list_of_more_rows_than_a_page_may_have_goes_on(one: Edge) -> None:
    more = [
        Organization(id=f"org_{n:05}", name="x", slug=f"x{n}", created_us=n)
        for n in range(LIMIT_MAX + 5)
    ]
    with Session(one.parts.tenants._store.engine) as session:
        session.add_all(more)
        session.commit()
    _, first = await get(one, "/admin/v1/organizations")
    _, second = await get(one, f"/admin/v1/organizations?after={first['after']}")
    assert (len(first["data"]), first["has_more"]) == (LIMIT_MAX, True)
    assert (len(second["data"]), second["has_more"], second["after"]) == (6, False, None)
    ids = [row["id"] for page in (first, second) for row in page["data"]]
    assert ids == sorted(ids) and len(set(ids)) == LIMIT_MAX + 6


# --- instants, and what is entitled -------------------------------------------------------------

KEY = {"project": PROJECT_ID, "name": "x"}
GRANT = {"organization": ORGANIZATION_ID, "category": "promotional", "amount_usd": "1"}


@pytest.mark.parametrize(("path", "sent"), [("keys", KEY), ("credits", GRANT)])
async def test_end_that_has_passed_is_refused_and_one_to_come_is_taken(
    one: Edge, path: str, sent: dict[str, str]
) -> None:
    now_s = int(one.watch())
    for past in (0, now_s - 1, _iso(now_s - 1), "2001-01-01", "soon", True, 1.5, -1, 10**12):
        status, told = await put(one, "POST", path, sent | {"expires_at": past})
        assert (status, told["error"]["param"]) == (400, "expires_at"), past
    for future in (now_s + 600, _iso(now_s + 600), f"{_iso(now_s + 600)[:19]}Z", None):
        status, told = await put(one, "POST", path, sent | {"expires_at": future})
        assert status == 201, told
        expected = None if future is None else _iso(now_s + 600)
        assert told["expires_at"] == expected


def _iso(epoch_s: int) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).isoformat()


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 30), timezones=st.timezones()))
def test_instant_is_the_same_however_it_is_written(instant: datetime) -> None:
    us = instant_us(instant.isoformat()) if instant.astimezone(UTC).year >= 1970 else 0
    if instant.microsecond == 0 and us:
        assert instant_us(us // 1_000_000) == us
    if us:
        assert datetime.fromtimestamp(us // 1_000_000, UTC) == instant.astimezone(UTC).replace(
            microsecond=0
        )


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_entitlement_of_a_model_that_there_is_not_is_refused(one: Edge, method: str) -> None:
    for scope in (f"key:{KEY_ID}", f"project:{PROJECT_ID}", f"org:{ORGANIZATION_ID}"):
        status, told = await put(
            one, method, f"entitlements/{scope}", {"models": ["tale", "no-such-model"]}
        )
        assert (status, told["error"]["param"]) == (400, "models")
    assert (await get(one, "/admin/v1/entitlements"))[1]["data"] == []
