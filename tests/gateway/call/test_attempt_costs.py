"""What every attempt of a call costs us, as the gateway records it and the ledger books it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing import queries
from billing.costs.attempts import costs_of
from billing.costs.margins import MarginBy, margins
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.money import usd
from billing.prices.book import read_published
from billing.prices.estimate import cut_call
from billing.types import SettledCall, encode
from gateway.upstream import fake
from tests.gateway.edge import Edge, Response, body, edge
from tests.redis_server import RedisServer

PRICE = 2_000_000
"""Nano-USD per second: 2 per microsecond."""
WHOLE = body(stream=False, stream_options=None)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        await running.publish_fleet(running.replica("r1"), running.replica("r2"))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=running.app), base_url="http://gateway"
        ) as http:
            answer = await http.patch(
                "/admin/v1/pools/tale-reserved",
                json={"cost_usd_per_s": usd(PRICE)},
                headers={"authorization": "Bearer admin"},
            )
        assert answer.status_code == 200, answer.text
        await running.parts.catalog.refresh()
        yield running


def tale(*busy_us: int, finish: str | None = "stop") -> list[fake.Act]:
    """A token a frame, each with the share of its replica's time by then."""
    last = len(busy_us)
    return [
        fake.Send(
            fake.own_frame(
                "word ", number, finish=finish if number == last else None, busy_us=share
            )
        )
        for number, share in enumerate(busy_us, start=1)
    ]


async def booked(one: Edge) -> SettledCall:
    """The only call there is, in the ledger."""
    (call,) = (await one.settled()).values()
    raw: Any = await one.parts.redis.get("sluice:prices")
    with one.parts.ledger.write() as conn:
        record = Record(0, "1-0", "settled", call.rid, encode(call))
        done = booking.book(conn, booking.read([record], read_published(raw), call.ended_us))
    assert not done.failures
    return call


async def test_g9_every_attempt_costs_us_and_the_customer_pays_once(one: Edge) -> None:
    busy = fake.refusal(503, {"message": "busy"})
    lost = fake.Script([*tale(300, 400, finish=None), fake.Close()])
    one.upstream.scripts.extend([busy, lost, fake.Script([*tale(500, 900), fake.Send(fake.DONE)])])
    assert (await one.post(WHOLE)).status == 200
    call = await booked(one)
    assert [(a.outcome, a.busy_us, a.nanousd_per_s) for a in call.attempts] == [
        ("saturated", 0, PRICE),
        ("cut", 400, PRICE),
        ("answered", 900, PRICE),
    ]
    assert [(c.nanousd, c.served) for c in costs_of(call)] == [
        (0, False),
        (800, False),
        (1800, True),
    ]
    ((row,), transfers) = (
        margins(one.parts.ledger, 0, 2 * call.ended_us, [MarginBy.POOL]),
        queries.recent_transfers(one.parts.ledger, 9),
    )
    assert row.capacity is not None
    assert (row.requests, row.cost_nanousd, row.capacity.wasted_nanousd) == (1, 1800, 800)
    assert row.revenue_nanousd == call.amount_nanousd
    assert [t["kind"] for t in transfers].count("charge") == 1


async def test_g10_every_attempt_says_which_model_it_was_of(one: Edge) -> None:
    one.upstream.scripts.append(fake.Script([fake.Reset()], status=None))
    await one.post(WHOLE | {"model": "auto"})
    call = await booked(one)
    assert [(a.model, a.pool) for a in call.attempts] == [("tale", "tale-reserved")] * 2


async def test_a_failed_call_is_free_and_all_of_it_is_wasted(one: Edge) -> None:
    lost = fake.Script([*tale(300, 400, finish=None), fake.Close()])
    one.upstream.scripts.extend([lost] * 9)
    assert (await one.post(WHOLE)).status >= 500
    call = await booked(one)
    assert call.amount_nanousd == 0
    assert {(c.nanousd, c.served) for c in costs_of(call)} == {(800, False)}


async def test_a_client_that_leaves_pays_for_what_came_and_it_costs_what_it_took(
    one: Edge,
) -> None:
    one.upstream.scripts.append(fake.Script([*tale(300, 700, finish=None), fake.Stall()]))
    await one.post(body(), leave=frames_of(one, 2))
    call = await booked(one)
    assert call.amount_nanousd > 0
    assert [(c.nanousd, c.served) for c in costs_of(call)] == [(1400, True)]


async def test_a_checkpoint_knows_what_a_killed_gateway_owes_its_pool(one: Edge) -> None:
    one.upstream.scripts.append(fake.Script([*tale(300, 700, finish=None), fake.Stall()]))
    seen = []

    async def killed(_: Response) -> None:
        await frames_of(one, 2)(_)
        (open_call,) = one.parts.accounts.open.values()
        seen.append((open_call.opened, open_call.checkpoint(open_call.opened.admitted_us + 9)))

    await one.post(body(), leave=killed)
    ((opened, checkpoint),) = seen
    settled = cut_call(opened, checkpoint, ended_us=checkpoint.at_us, rate=lambda **_: 1)
    assert [(c.nanousd, c.served) for c in costs_of(settled)] == [(1400, True)]
    assert [a.outcome for a in settled.attempts] == ["running"]


def frames_of(one: Edge, tokens: int) -> Any:
    """Leave when so much of the only open call has been counted."""

    async def leave(_: Response) -> None:
        async with asyncio.timeout(30):
            while True:
                meters = [call.meter for call in one.parts.accounts.open.values() if call.meter]
                if meters and meters[0].usage.output >= tokens:
                    return
                await asyncio.sleep(0.005)

    return leave
