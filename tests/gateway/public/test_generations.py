"""What a tenant asks about its own calls: one that cannot come is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import event

from billing.prices.book import PriceRate
from billing.prices.versions import put_into_force
from billing.types import UsageSource
from gateway.decisions import booked
from tests.billing.invoices.test_invoices import IN_NOVEMBER_US, IN_OCTOBER_US, book, call
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.console.test_pages import browser, sign_in
from tests.gateway.edge import API_KEY, ORGANIZATION_ID, Edge, body, edge
from tests.gateway.outages import ledger
from tests.redis_server import RedisServer

RATES = [
    PriceRate(model, "default", component, price, batch=is_batch)
    for model, is_batch in (("tale-large", False), ("tale-small", True), ("tale-small", False))
    for component, price in (("input", 300_000_000), ("output", 900_000_000))
]


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


@contextmanager
def looks(one: Edge) -> Iterator[list[str]]:
    """What the ledger is asked about calls meanwhile."""
    asked: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "FROM usage_event" in statement:
            asked.append(statement)

    event.listen(one.parts.ledger.engine, "before_cursor_execute", note)
    yield asked
    event.remove(one.parts.ledger.engine, "before_cursor_execute", note)


@pytest.mark.parametrize("rid", ["req_none", "req_018f00000000" + "0" * 20, "x" * 200])
async def test_call_that_nobody_has_heard_of_is_not_waited_for(one: Edge, rid: str) -> None:
    with looks(one) as asked:
        status, told = await ask(one.app, "GET", f"/v1/generations/{rid}", b"", API_KEY)
    assert (status, told["error"]["code"]) == (404, "not_found")
    assert len(asked) == 1, "one look, and no second one"


async def test_call_that_has_ended_is_waited_for_until_the_ledger_has_it(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 20.0)
    rid = (await one.post(body())).headers["x-request-id"]
    async with ledger(redis, tmp_path):
        status, told = await ask(one.app, "GET", f"/v1/generations/{rid}", b"", API_KEY)
    assert (status, told["id"]) == (200, rid)
    assert_described(one.app, "GET", f"/v1/generations/{rid}", status, told)


async def test_call_that_the_ledger_does_not_have_yet_is_said_to_be_so(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 0.2)
    rid = (await one.post(body())).headers["x-request-id"]
    with looks(one) as asked:
        status, told = await ask(one.app, "GET", f"/v1/generations/{rid}", b"", API_KEY)
    assert (status, told["error"]["code"]) == (404, "not_found")
    assert "not in the ledger yet" in told["error"]["message"]
    assert len(asked) > 1


async def test_call_that_waited_says_how_often_it_was_decided_anew_and_what_came_of_it(
    one: Edge, redis: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booked, "LEDGER_LAG_S", 20.0)
    await one.publish_fleet()
    waiting = asyncio.create_task(one.post(body()))
    await one.waits()
    await one.publish_fleet()
    await one.publish_fleet(one.replica("late"))
    rid = (await waiting).headers["x-request-id"]
    at_once = (await one.post(body())).headers["x-request-id"]
    async with ledger(redis, tmp_path), browser(one) as client:
        for path, key in (("/v1/generations", API_KEY), ("/admin/v1/requests", "admin")):
            status, told = await ask(one.app, "GET", f"{path}/{rid}", b"", key)
            assert_described(one.app, "GET", f"{path}/{rid}", status, told)
            assert (told["wait"]["pool"], told["wait"]["end"]) == ("tale-reserved", "place")
            assert told["wait"]["redecisions"] >= 1
            _, told = await ask(one.app, "GET", f"{path}/{at_once}", b"", key)
            assert told["wait"] is None
        await sign_in(client)
        page = (await client.get(f"/console/calls/{rid}")).text
        assert "While it waited for tale-reserved it was decided anew" in page
        assert "While it waited" not in (await client.get(f"/console/calls/{at_once}")).text


async def test_calls_are_listed_by_their_best_record_to_their_own_organization(one: Edge) -> None:
    store = one.parts.ledger
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    own = {"org": ORGANIZATION_ID}
    guess = {**own, "source": UsageSource.ESTIMATED, "output": 1}
    book(
        store,
        call(store, "req_1", IN_OCTOBER_US - 2, **guess),
        call(store, "req_2", IN_OCTOBER_US - 1, model="tale-small", batch=True, **own),
        call(store, "req_3", IN_OCTOBER_US, org="org_other"),
        call(store, "req_1", IN_NOVEMBER_US, model="tale-small", **own),
    )

    async def listed(query: str, path: str = "/v1/generations", key: str = API_KEY) -> list[str]:
        status, page = await ask(one.app, "GET", f"{path}?{query}", b"", key)
        assert status == 200, page
        assert_described(one.app, "GET", path, status, page)
        return [row["id"] for row in page["data"]]

    assert await listed("") == ["req_2", "req_1"]
    assert await listed("from=2026-10-01&to=2026-11-01") == ["req_2", "req_1"]
    assert await listed("model=tale-large") == [], "as its best record has it"
    assert await listed("model=tale-small&limit=1") == ["req_2"]
    assert await listed("from=2026-11-01") == [], "by the end of the first record"
    everybodys = ("/admin/v1/requests", "admin")
    assert await listed("", *everybodys) == ["req_3", "req_2", "req_1"]
    assert await listed("organization=org_other&model=tale-large", *everybodys) == ["req_3"]
    status, wrong = await ask(one.app, "GET", "/v1/generations?from=soon", b"", API_KEY)
    assert (status, wrong["error"]["param"]) == (400, "from")

    _, page = await ask(one.app, "GET", "/v1/generations", b"", API_KEY)
    second, first = page["data"]
    assert (second["batch"], second["corrections"], first["corrections"]) == (True, 0, 1)
    assert first["ended_at"] > second["ended_at"]
    _, whole = await ask(one.app, "GET", "/v1/generations/req_1", b"", API_KEY)
    assert [each["usage_source"] for each in whole["records"]] == ["estimated", "exact"]
    assert [each["ended_at"][:7] for each in whole["records"]] == ["2026-10", "2026-11"]
    assert whole["records"][1]["usage"] == first["usage"] == whole["usage"]
