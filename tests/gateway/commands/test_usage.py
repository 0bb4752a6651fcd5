"""`sluice usage`: sums of the ledger as a table, as JSON and as CSV, over all pages."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.types import encode
from gateway.commands.terminal.admin_api import AdminApi
from tests.gateway.admin.test_usage import BOOK, CALLS, MIDNIGHT_S
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer

SPAN = ("--from", "2026-09-04", "--to", "2026-09-06")


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """With calls on two days in September, of two organizations."""
    async with edge(redis_server, redis, tmp_path) as running:
        records = [Record(0, f"{n}-0", "settled", c.rid, encode(c)) for n, c in enumerate(CALLS)]
        with running.parts.ledger.write() as conn:
            booking.book(conn, booking.read(records, BOOK, 2 * MIDNIGHT_S * 1_000_000))
        yield running


async def test_table_has_a_row_for_each_organization_and_model_and_their_total(
    sluice: Sluice,
) -> None:
    lines = (await sluice("usage", *SPAN)).splitlines()
    assert lines[0] == "calls that ended from 2026-09-04 00:00Z to 2026-09-06 00:00Z"
    assert lines[1].split() == [
        "ORG", "MODEL", "REQUESTS", "INPUT", "CACHED_INPUT", "OUTPUT", "COST_USD",
    ]  # fmt: skip
    assert [line.split()[:3] for line in lines[2:-1]] == [
        ["default", "tale", "4"],
        ["default", "vectors", "1"],
        ["org_other", "tale", "1"],
    ]
    total = lines[-1].split()
    told = await sluice.json("usage", *SPAN, "--by", "org")
    assert (total[0], total[-6], total[-5]) == ("total", "-", "6")
    assert float(total[-1]) == pytest.approx(sum(float(r["cost_usd"]) for r in told["data"]))


async def test_csv_and_json_are_the_same_rows(sluice: Sluice) -> None:
    words = ("usage", *SPAN, "--by", "model", "--by", "key", "--every", "day")
    answer = await sluice.json(*words)
    lines = list(csv.DictReader(io.StringIO(await sluice(*words, "--csv"))))
    assert [(line["from"], line["model"], line["key"], line["cost_usd"]) for line in lines] == [
        (row["from"], row["group"]["model"], row["group"]["key"], row["cost_usd"])
        for row in answer["data"]
    ]
    assert len(lines) > 3 and not answer["has_more"]


async def test_pages_are_joined(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the gateway had a page of one row."""
    words = ("usage", *SPAN, "--by", "model", "--by", "key", "--every", "day")
    whole, as_csv = await sluice.json(*words), await sluice(*words, "--csv")
    ask = AdminApi.ask

    def ask_for_one(
        self: AdminApi, method: str, path: str, query: dict[str, object], body: None = None
    ) -> object:
        return ask(self, method, path, {**query, "limit": 1}, body)

    monkeypatch.setattr(AdminApi, "ask", ask_for_one)
    assert (await sluice.json(*words))["data"] == whole["data"]
    assert await sluice(*words, "--csv") == as_csv


async def test_period_is_a_month_or_a_day_and_organization_a_slug(sluice: Sluice) -> None:
    count = partial(sluice.json, "usage", "--by", "org")
    assert [row["requests"] for row in (await count("--period", "2026-09"))["data"]] == [5, 1]
    day = await count("--period", "2026-09-05", "--org", "default")
    assert [row["requests"] for row in day["data"]] == [1]
    assert (day["from"][:10], day["to"][:10]) == ("2026-09-05", "2026-09-06")
    year = await count("--period", "2026-12")
    assert (year["from"][:10], year["to"][:10]) == ("2026-12-01", "2027-01-01")
    assert "nothing was used" in await sluice("usage", "--since", "1h", "--org", "default")


WRONG = (
    (("--period", "November"), 2, "no month as in 2026-11"),
    (("--since", "yesterday"), 2, "no span as in 90m"),
    (("--period", "2026-09", "--since", "1h"), 2, "exclude one another"),
    (("--from", "2026-09-05", "--to", "2026-09-04"), 1, "end_time"),
    (("--by", "colour"), 2, "'colour' is not one of"),
    (("--by", "day", "--every", "day"), 1, "group_by"),
    (("--json", "--csv"), 2, "say one"),
    (("--org", "none"), 1, "There is no organization 'none'"),
)


async def test_wrong_question_is_refused_in_one_line(sluice: Sluice) -> None:
    for words, status, expected in WRONG:
        assert expected in await sluice.refused("usage", *words, status=status)
