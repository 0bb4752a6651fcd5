"""Dead letters by the admin API: listed, shown, tried again, judged."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.prices.versions import put_into_force
from billing.recovery.primer import RECOUNT_KEY
from billing.types import encode
from tests.gateway.admin.test_usage import BOOK, MIDNIGHT_S, call
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

LETTERS = "/admin/v1/ledger/dead-letters"
BOOKED_LATER = call("r1", MIDNIGHT_S)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """Three letters: one that was damaged, one that may be booked now, one of another amount."""
    async with edge(redis_server, redis, tmp_path) as running:
        amiss = replace(call("r2", MIDNIGHT_S), amount_nanousd=5)
        records = [
            Record(3, "1-0", "settled", "r0", b"{damaged"),
            Record(3, "2-0", "settled", "r1", encode(BOOKED_LATER)),
            Record(3, "3-0", "settled", "r2", encode(amiss)),
        ]
        (version,) = BOOK.versions
        put_into_force(running.parts.ledger, version.rates, by="test", now_us=1, version_id="pv")
        with running.parts.ledger.write() as conn:
            for record, reason in zip(records, ("malformed", "unbookable"), strict=False):
                booking.give_up(conn, [booking.Failure(record, reason, "as it was")], 1)
            booking.book(conn, booking.read(records[2:], BOOK, 2 * MIDNIGHT_S * 1_000_000))
        yield running


async def told(one: Edge, method: str, path: str = "", sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, LETTERS + path, raw, "admin")
    if status == 200:
        assert_described(one.app, method, LETTERS + path, status, answer)
    return status, answer


async def ids(one: Edge, query: str = "") -> list[tuple[int, str]]:
    status, answer = await told(one, "GET", query)
    assert status == 200, answer
    return [(letter["id"], letter["reason"]) for letter in answer["data"]]


async def test_letters_are_listed_the_oldest_first_and_page_by_page(one: Edge) -> None:
    assert await ids(one) == [(1, "malformed"), (2, "unbookable"), (3, "amount_mismatch")]
    _, first = await told(one, "GET", "?limit=2")
    assert (first["has_more"], first["last_id"]) == (True, 2)
    _, rest = await told(one, "GET", "?limit=2&after=2")
    assert (rest["has_more"], [letter["request"] for letter in rest["data"]]) == (False, ["r2"])


async def test_a_letter_is_shown_with_its_payload(one: Edge) -> None:
    _, damaged = await told(one, "GET", "/1")
    assert (damaged["payload"], damaged["detail"]) == ("{damaged", "as it was")
    _, whole = await told(one, "GET", "/2")
    assert whole["payload"]["rid"] == "r1" and "messages" not in whole["payload"]


async def test_a_letter_is_booked_once_and_says_so(one: Edge) -> None:
    status, booked = await told(one, "POST", "/2/retry")
    assert (status, booked["resolution"]["outcome"]) == (200, "booked")
    assert await told(one, "POST", "/2/retry") == (200, booked)
    assert await one.redis.smembers(RECOUNT_KEY) == {b"3"}
    status, explained = await ask(one.app, "GET", "/admin/v1/requests/r1", b"", "admin")
    assert status == 200 and len(explained["transfers"]) == 1
    assert [number for number, _ in await ids(one)] == [1, 3]


@pytest.mark.parametrize(("number", "why"), [(1, "malformed"), (3, "a person has to judge")])
async def test_what_cannot_be_booked_is_a_409_that_says_why(
    one: Edge, number: int, why: str
) -> None:
    status, answer = await told(one, "POST", f"/{number}/retry")
    assert (status, answer["error"]["code"]) == (409, "conflict")
    assert why in answer["error"]["message"]
    assert len(await ids(one)) == 3


async def test_a_judged_letter_breaks_no_law_and_is_judged_once(one: Edge) -> None:
    for number in (1, 2, 3):
        status, judged = await told(one, "POST", f"/{number}/resolve", {"note": " ours \n"})
        assert (status, judged["resolution"]["note"]) == (200, "ours")
    assert judged["resolution"]["by"] == "admin"
    status, answer = await told(one, "POST", "/3/resolve", {"note": "again"})
    assert status == 409 and "judged by admin: ours" in answer["error"]["message"]
    assert (await told(one, "POST", "/2/retry"))[0] == 409
    assert await ids(one) == [] and len(await ids(one, "?resolved=true")) == 3
    _, report = await ask(one.app, "GET", "/admin/v1/ledger/verify", b"", "admin")
    (check,) = [c for c in report["checks"] if c["name"] == "no_dead_letter"]
    assert (check["outcome"], check["detail"]) == ("holds", "3 judged, 0 booked later")


@pytest.mark.parametrize("wrong", [{}, {"note": ""}, {"note": " "}, {"note": "a\0"}, {"why": "x"}])
async def test_a_judgement_without_a_reason_is_refused(one: Edge, wrong: dict[str, str]) -> None:
    assert (await told(one, "POST", "/1/resolve", wrong))[0] == 400
    assert len(await ids(one)) == 3


async def test_a_letter_that_is_not_there_is_404(one: Edge) -> None:
    for method, path, sent in (
        ("GET", "/9", None),
        ("POST", "/9/retry", None),
        ("POST", "/9/resolve", {"note": "n"}),
    ):
        assert (await told(one, method, path, sent))[0] == 404


async def test_letters_are_no_tenants_business(one: Edge) -> None:
    status, _ = await ask(one.app, "GET", LETTERS, b"", API_KEY)
    assert status == 401
