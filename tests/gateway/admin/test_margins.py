"""`/admin/v1/margins` and what a call cost us: for whoever runs this, and for no tenant."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.costs.life_writer import LifeEntry, book_lives
from billing.costs.lifetimes import LifeReport
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.types import Attempt, AttemptKind, SettledCall, UsageSource, encode
from gateway.api.cursors import cursor_of
from gateway.instants import iso
from tests.gateway.admin.test_usage import API_KEY, BOOK, HOUR_S, MIDNIGHT_S, call
from tests.gateway.api.described import assert_described
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

S = 1_000_000
SPAN = f"start_time={MIDNIGHT_S}&end_time={MIDNIGHT_S + 2 * HOUR_S}"


def attempt(pool: str, busy_s: int, outcome: str = "answered") -> Attempt:
    return Attempt(
        pool=pool,
        replica=f"{pool}-1",
        started_us=(MIDNIGHT_S - 1) * S,
        ended_us=MIDNIGHT_S * S,
        outcome=outcome,
        input=3,
        output=5,
        model="tale",
        busy_us=busy_s * S,
        nanousd_per_s=1_000_000,
    )


CALLS = [
    call(
        *("r1", MIDNIGHT_S),
        pool="a",
        attempts=[attempt("b", 1, "cut"), replace(attempt("a", 2), kind=AttemptKind.RETRY)],
    ),
    call("r2", MIDNIGHT_S + 60, pool="b", attempts=[attempt("b", 3)], org="org_other"),
]
LIVES = [
    LifeReport(
        replica=f"{pool}-1",
        pool=pool,
        model="tale",
        nanousd_per_s=1_000_000,
        started_us=(MIDNIGHT_S - 100) * S,
        ready_us=(MIDNIGHT_S - 90) * S,
        until_us=(MIDNIGHT_S + 100) * S,
        busy_us=5 * S,
        ended=True,
    )
    for pool in ("a", "b")
]


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        records = [Record(0, f"{n}-0", "settled", c.rid, encode(c)) for n, c in enumerate(CALLS)]
        lives = [LifeEntry(f"{n}-0", msgspec.json.encode(life)) for n, life in enumerate(LIVES)]
        with running.parts.ledger.write() as conn:
            booking.book(conn, booking.read(records, BOOK, 2 * MIDNIGHT_S * S))
            book_lives(conn, lives, 2 * MIDNIGHT_S * S)
        yield running


def book(one: Edge, calls: Sequence[SettledCall]) -> None:
    records = [Record(1, f"{n}-{c.rid}", "settled", c.rid, encode(c)) for n, c in enumerate(calls)]
    with one.parts.ledger.write() as conn:
        booking.book(conn, booking.read(records, BOOK, 2 * MIDNIGHT_S * S))


async def asked(one: Edge, target: str, key: str = "admin") -> httpx.Response:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=one.app), base_url="http://gateway"
    ) as http:
        answer = await http.get(target, headers={"authorization": f"Bearer {key}"})
    if answer.status_code == 200 and answer.headers["content-type"] == "application/json":
        assert_described(one.app, "GET", target, 200, answer.json())
    return answer


async def margins(one: Edge, more: str = "") -> Any:
    answer = await asked(one, f"/admin/v1/margins?{SPAN}{more}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_cost_of_goods_and_what_nobody_used_are_the_bill_of_the_fleet(one: Edge) -> None:
    fleet = (await margins(one))["fleet"]
    assert fleet["bill_usd"] == "0.40"  # two replicas of 200 s
    assert (fleet["cogs_usd"], fleet["wasted_usd"]) == ("0.005", "0.001")
    assert (fleet["cold_start_usd"], fleet["idle_usd"]) == ("0.02", "0.37")
    assert Decimal(fleet["cogs_usd"]) + Decimal(fleet["unallocated_usd"]) == Decimal("0.4")
    parts = ("idle_usd", "cold_start_usd", "wasted_usd", "unrecorded_usd")
    assert sum(Decimal(fleet[name]) for name in parts) == Decimal(fleet["unallocated_usd"])


async def test_a_call_that_no_replica_has_reported_yet_is_below_zero_and_the_parts_still_add_up(
    one: Edge,
) -> None:
    before = (await margins(one))["fleet"]
    book(one, [call("soon", MIDNIGHT_S + 60, pool="a", attempts=[attempt("a", 7)])])
    fleet = (await margins(one))["fleet"]
    assert Decimal(before["unrecorded_usd"]) - Decimal(fleet["unrecorded_usd"]) == Decimal("0.007")
    assert Decimal(fleet["unrecorded_usd"]) < 0
    assert fleet["bill_usd"] == before["bill_usd"] and fleet["idle_usd"] == before["idle_usd"]
    parts = ("idle_usd", "cold_start_usd", "wasted_usd", "unrecorded_usd")
    assert sum(Decimal(fleet[name]) for name in parts) == Decimal(fleet["unallocated_usd"])
    components = one.app.openapi()["components"]["schemas"]
    told = components["FleetMargin"]["properties"]["unrecorded_usd"]
    assert "below zero" in told["description"]


@pytest.mark.parametrize(
    ("group_by", "groups", "costs"),
    [
        ("pool", [{"pool": "a"}, {"pool": "b"}], ["0.002", "0.003"]),
        ("model", [{"model": "tale"}], ["0.005"]),
    ],
)
async def test_pools_and_models_have_their_bill(
    one: Edge, group_by: str, groups: list[dict[str, str]], costs: list[str]
) -> None:
    rows = (await margins(one, f"&group_by={group_by}"))["data"]
    assert [row["group"] for row in rows] == groups
    assert [row["cogs_usd"] for row in rows] == costs
    assert sum(Decimal(row["bill_usd"]) for row in rows) == Decimal("0.4")


async def test_an_organization_has_no_part_in_what_nobody_used(one: Edge) -> None:
    answer = await margins(one, "&group_by=organization&group_by=day")
    assert {row["group"]["organization"] for row in answer["data"]} >= {"org_other"}
    assert all("bill_usd" not in row for row in answer["data"])
    assert sum(Decimal(row["cogs_usd"]) for row in answer["data"]) == Decimal("0.005")
    assert answer["fleet"]["bill_usd"] == "0.40"


async def test_requests_are_told_one_by_one_and_in_pages(one: Edge) -> None:
    first = await margins(one, "&group_by=request&limit=1")
    assert first["has_more"] and first["data"][0]["group"]["request"] == "r2"
    second = await margins(one, f"&group_by=request&limit=1&page={first['next_page']}")
    assert not second["has_more"] and second["next_page"] is None
    (row,) = second["data"]
    assert row["group"]["request"] == "r1" and row["cogs_usd"] == "0.002"
    assert Decimal(row["revenue_usd"]) - Decimal("0.002") == Decimal(row["margin_usd"])


async def test_every_call_of_a_span_is_on_one_page_whatever_comes_meanwhile(one: Edge) -> None:
    """Several end in one instant, and corrections end at another one than their first record."""
    estimate = {"source": UsageSource.ESTIMATED, "output": 1}
    same = [call(f"s{n}", MIDNIGHT_S + 30, **(estimate if n % 2 else {})) for n in range(7)]
    better = [call(f"s{n}", MIDNIGHT_S + 5000) for n in range(1, 7, 2)]
    outside = [call("before", MIDNIGHT_S - 1), call("after", MIDNIGHT_S + 2 * HOUR_S)]
    book(one, [*same, *better, *outside])
    seen: list[str] = []
    page = ""
    while page is not None:
        answer = await margins(one, f"&group_by=request&limit=2{page and '&page=' + page}")
        assert len(answer["data"]) == 2 or not answer["has_more"]
        seen += [row["group"]["request"] for row in answer["data"]]
        book(one, [call(f"new{len(seen)}", MIDNIGHT_S + 3000)])
        page = answer["next_page"]
    assert seen == ["r2", *(f"s{n}" for n in reversed(range(7))), "r1"]


async def test_groups_go_on_behind_the_last_one_of_a_page(one: Edge) -> None:
    grouped = "&group_by=day&group_by=organization"
    book(one, [call(f"d{n}", MIDNIGHT_S + 60, org=f"org_{n}") for n in range(3)])
    whole = (await margins(one, grouped))["data"]
    seen: list[Any] = []
    page = ""
    while page is not None:
        answer = await margins(one, f"{grouped}&limit=2{page and '&page=' + page}")
        seen += answer["data"]
        page = answer["next_page"]
    assert seen == whole and len(whole) == 5


@pytest.mark.parametrize(
    ("groups", "key"),
    [
        ("request", ["1", "r1"]),
        ("request", [1]),
        ("request", [2**70, "r1"]),
        ("day", ["org"]),
        ("pool", ["a\0"]),
        ("pool", None),
    ],
)
async def test_a_page_that_is_none_is_refused(one: Edge, groups: str, key: Any) -> None:
    page = "nonsense" if key is None else cursor_of(key)
    answer = await asked(one, f"/admin/v1/margins?{SPAN}&group_by={groups}&page={page}")
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "page"


async def test_margins_come_as_csv(one: Edge) -> None:
    answer = await asked(one, f"/admin/v1/margins?{SPAN}&group_by=pool&format=csv&limit=1")
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["pool"], row["cogs_usd"], row["bill_usd"]) == ("a", "0.002", "0.20")
    cursor = answer.headers["x-sluice-next-page"]
    answer = await asked(
        one, f"/admin/v1/margins?{SPAN}&group_by=pool&format=csv&limit=1&page={cursor}"
    )
    assert [row["pool"] for row in csv.DictReader(io.StringIO(answer.text))] == ["b"]
    assert "x-sluice-next-page" not in answer.headers
    answer = await asked(one, f"/admin/v1/margins?{SPAN}&group_by=organization&format=csv")
    assert "bill_usd" not in answer.text.splitlines()[0]


@pytest.mark.parametrize("wrong", ["group_by=day&group_by=day", "group_by=request&group_by=day"])
async def test_groups_that_make_no_sense_are_refused(one: Edge, wrong: str) -> None:
    answer = await asked(one, f"/admin/v1/margins?{SPAN}&{wrong}")
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "group_by"


async def test_a_span_that_ends_before_it_begins_is_refused(one: Edge) -> None:
    answer = await asked(one, "/admin/v1/margins?start_time=9&end_time=8")
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "end_time"


async def test_a_call_is_explained_with_its_cost_to_us_but_not_to_its_tenant(one: Edge) -> None:
    told = (await asked(one, "/admin/v1/requests/r1")).json()
    assert (told["cogs"]["cogs_usd"], told["cogs"]["wasted_usd"]) == ("0.002", "0.001")
    assert [(a["pool"], a["cogs_usd"], a["served"]) for a in told["attempts"]] == [
        ("b", "0.001", False),
        ("a", "0.002", True),
    ]
    tenant = await asked(one, "/v1/generations/r1", API_KEY)
    assert tenant.status_code == 200
    assert [a["pool"] for a in tenant.json()["attempts"]] == ["b", "a"]
    for attempts in (told["attempts"], tenant.json()["attempts"]):
        assert [(a["n"], a["model"], a["kind"]) for a in attempts] == [
            (0, "tale", "first"),
            (1, "tale", "retry"),
        ]
        times = (iso((MIDNIGHT_S - 1) * S), iso(MIDNIGHT_S * S))
        assert [(a["started_at"], a["ended_at"]) for a in attempts] == [times, times]
    assert told["attempts"][0]["usage"] == {"input": 3, "cached_input": 0, "output": 5}
    assert told["attempts"][0]["replica"] == "b-1" and "status" in told["attempts"][0]
    assert "cogs" not in tenant.text and "nanousd" not in str(tenant.json()["attempts"])
    assert "busy_us" not in tenant.text


async def test_usage_above_what_was_held_is_told_to_operators_and_paid_by_us(one: Edge) -> None:
    server = attempt("b", 0)
    reported = replace(server, input=90, output=2_000, output_nanousd_per_mtok=10**9)
    book(one, [replace(call("lied", MIDNIGHT_S, pool="b"), attempts=[reported], input=40)])
    told = (await asked(one, "/admin/v1/requests/lied")).json()
    charged = told["usage"]["output"]
    above = {"prompt": 50, "completion": 2_000 - charged}
    assert told["cogs"]["tokens_above_hold"] == above and charged < 2_000
    assert Decimal(told["cogs"]["cogs_usd"]) == Decimal("0.002")
    assert told["attempts"][0]["output"] == 2_000
    tenant = await asked(one, "/v1/generations/lied", API_KEY)
    assert "above_hold" not in tenant.text
