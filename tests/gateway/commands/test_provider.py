"""`sluice provider`: how providers are, and what their bills differ by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from billing.bills.bill import day_of
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.prices.book import read_published
from billing.types import encode
from gateway.api.cursors import cursor_of
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.commands.sluice import ready
from tests.gateway.edge import FAR, Edge, body, edge, story
from tests.gateway.served import served
from tests.redis_server import RedisServer

POOL = {"model": FAR, "provider": "acme", "cost_output_usd_per_mtok": "1000"}
HEAD = "day,model,usage_class,quantity,amount\n"


async def book(one: Edge) -> int:
    """The calls so far; what their attempts bought."""
    raw: Any = await one.parts.redis.get("sluice:prices")
    calls = [*(await one.settled()).values()]
    records = [
        Record(0, f"{n}-0", "settled", call.rid, encode(call)) for n, call in enumerate(calls)
    ]
    with one.parts.ledger.write() as conn:
        batch = booking.read(records, read_published(raw), calls[0].ended_us)
        assert not booking.book(conn, batch).failures
    return sum(each.output for call in calls for each in call.attempts) * 1_000_000


async def test_a_bill_is_compared_posted_once_and_shown(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with (
        fake.FakeUpstream(lambda _: story()) as server,
        edge(redis_server, redis, tmp_path, outer=server.address, outer_pool=POOL) as one,
        served(one.app) as url,
    ):
        sluice = ready(tmp_path / "ready", url)
        assert (await one.post(body(model=FAR))).status == 200
        bought = await book(one)
        said = await sluice("provider", "list")
        assert "acme" in said and "closed" in said and f"{bought / 1e9:g}" in said
        settled = (await one.settled()).values()
        day = day_of(next(each.attempts[0].started_us for each in settled))
        file = tmp_path / "bill.csv"
        file.write_text(f"{HEAD}{day},their-tale,output,8,1.50\n")
        looked = await sluice.json("provider", "reconcile", str(file), "--dry-run")
        assert looked["posted_at"] is None
        done = await sluice("provider", "reconcile", str(file), "--provider", "acme")
        assert "posted now" in done and "their-tale" in done
        assert "posted already at" in await sluice("provider", "reconcile", str(file))
        path = "/admin/v1/providers/acme/reconciliations"
        status, page = await ask(one.app, "GET", path, b"", "admin")
        assert_described(one.app, "GET", path, status, page)
        (row,) = page["data"]
        assert row["variance_usd"] == looked["variance_usd"] and row["billed_usd"] == "1.50"
        elsewhere = f"{path}?after={cursor_of((0, 'x'))}"
        status, answer = await ask(one.app, "GET", elsewhere, b"", "admin")
        assert (status, answer["error"]["param"]) == (400, "after"), "a page of another list"
        for wrong, code, where in (
            ("nothing", 400, path),
            (HEAD, 400, path),
            (file.read_text(), 404, "/admin/v1/providers/nobody/reconciliations"),
        ):
            sent = json.dumps({"file": wrong}).encode()
            status, answer = await ask(one.app, "POST", where, sent, "admin")
            assert status == code, answer
        refused = await sluice.run("provider", "reconcile", str(file), "--provider", "nobody")
        assert refused.exit_code == 1
