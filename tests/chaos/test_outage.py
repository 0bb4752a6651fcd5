"""Redis hangs, dies and is emptied under several real gateways: callers get what was declared, in
bounded time, and afterwards the ledger has every call once, to the nano-dollar."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pytest

from billing.db.engine import Store, open_store
from billing.ledger.report import Outcome
from billing.money import nanousd
from billing.queries import call_by_rid
from billing.verify import verify_all
from gateway.call.recovery import GATEWAYS_KEY
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID
from gateway.upstream import fake
from tests.gateway.outages import OUTAGES, stopped
from tests.gateway_processes import API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

CALLERS = 8
WHOLE_WITHIN_S = 120.0
ANSWERED_WITHIN_S = 60.0
AROUND_THE_HARM = 30
"""Calls that are answered before it and after it."""


@dataclass
class Seen:
    """`cost_nanousd` is what the answer said it cost, where it came to its end; `requests_limit`
    what it said of the rate of requests; `said` is how it began."""

    status: int
    rid: str
    cost_nanousd: int | None
    requests_limit: str | None
    said: str


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with TemporaryDirectory(prefix="sluice-") as folder, RedisServer(Path(folder)) as started:
        yield started


@pytest.fixture
async def upstream() -> AsyncIterator[fake.FakeUpstream]:
    rng = random.Random(7)

    def tell(_: fake.Request) -> fake.Script:
        count = rng.randint(2, 30)
        acts: list[fake.Act] = []
        for number in range(count):
            acts += [fake.Send(fake.plain_frame(f"w{number} ")), fake.Pause(0.02)]
        last = (
            fake.plain_frame(finish="stop")
            + fake.plain_usage(10, rng.choice((0, 1, count, 2 * count, 5_000)))
            + fake.DONE
        )
        return fake.Script([*acts, fake.Send(last)])

    async with fake.FakeUpstream(tell) as running:
        yield running


async def call(running: Gateways, number: int, user: str = "u") -> Seen | None:
    """One streamed call; None where its gateway was not there or died under it. Raises
    TimeoutError where it was not answered."""
    sent = {
        "model": "outside",
        "messages": [{"role": "user", "content": "Tell a story."}],
        "max_tokens": 64,
        "user": user,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    named = {"authorization": f"Bearer {API_KEY}"}
    url = running.url(number, "/v1/chat/completions")
    try:
        async with (
            asyncio.timeout(ANSWERED_WITHIN_S),
            running.session.post(url, json=sent, headers=named) as response,
        ):
            text = await response.text()
    except aiohttp.ClientError:
        return None
    cost = None
    if text.endswith("data: [DONE]\n\n"):
        events = [json.loads(e[6:]) for e in text.split("\n\n") if e.startswith("data: {")]
        cost = nanousd(str(events[-1]["usage"]["cost"]))
    rid, limit = response.headers["x-request-id"], "x-ratelimit-limit-requests"
    return Seen(response.status, rid, cost, response.headers.get(limit), text[:300])


async def storm(running: Gateways, harm: Any) -> list[Seen]:
    """Calls to all gateways before, during and after the harm."""
    seen: list[Seen] = []
    stop = asyncio.Event()

    async def keep_calling(number: int) -> None:
        while not stop.is_set():
            if one := await call(running, number):
                seen.append(one)
            await asyncio.sleep(0.02)

    async def answered(more: int) -> None:
        wanted = sum(one.status == 200 for one in seen) + more
        while sum(one.status == 200 for one in seen) < wanted:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async with asyncio.timeout(WHOLE_WITHIN_S), asyncio.TaskGroup() as callers:
        for number in range(CALLERS):
            callers.create_task(keep_calling(number))
        await answered(AROUND_THE_HARM)
        await harm()
        await answered(AROUND_THE_HARM)
        stop.set()
    return seen


async def assert_whole(running: Gateways, server: RedisServer, seen: list[Seen]) -> None:
    store = open_store(f"sqlite:///{running.data / 'sluice.db'}")
    try:
        async with asyncio.timeout(WHOLE_WITHIN_S):
            while broken := await _breaks(store, running, server, seen):
                last = broken
                await asyncio.sleep(0.3)
    except TimeoutError as late:
        raise AssertionError(last) from late
    finally:
        store.close()


async def _breaks(
    store: Store, running: Gateways, server: RedisServer, seen: list[Seen]
) -> list[str]:
    redis = server.client()
    try:
        report = await verify_all(
            store,
            now_us=round(time.time() * 1e6),
            spool_root=running.data / "spool",
            redis=redis,
            hold_age_max_s=0.0,
        )
    finally:
        await redis.aclose()
    found = [f"{c.name}: {c.detail}" for c in report.checks if c.outcome is not Outcome.HOLDS]
    for one in seen:
        if one.cost_nanousd is not None:
            booked = await asyncio.to_thread(call_by_rid, store, one.rid)
            charged = booked and (booked.usage.source, booked.usage.amount_nanousd)
            if charged != ("exact", one.cost_nanousd):
                found.append(f"{one.rid} cost {one.cost_nanousd} and is booked as {charged}")
    return found


def some(*short: str) -> Any:
    """Every outage, all but some of them in the long version."""
    return pytest.mark.parametrize(
        "outage",
        [pytest.param(o, marks=[] if o in short else [pytest.mark.long]) for o in OUTAGES],
    )


@some("stopped", "wiped")
async def test_g34_local_calls_of_several_gateways_are_in_the_ledger_once(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path, outage: str
) -> None:
    """One of the gateways is killed as well while Redis is away."""
    async with gateways(server, tmp_path, upstream.address, count=2) as running:

        async def harm() -> None:
            with OUTAGES[outage](server):
                await asyncio.sleep(0.6)
                running.kill9("1")
                await asyncio.sleep(0.6)
            running.start("1")
            await running.takes_calls()

        seen = await storm(running, harm)
        found = Counter(one.status for one in seen)
        assert set(found) <= {200, 503}
        await assert_whole(running, server, seen)


@some("stopped")
async def test_g34_denied_calls_of_several_gateways_cost_nothing(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path, outage: str
) -> None:
    async with gateways(server, tmp_path, upstream.address, count=2) as running:
        await running.admin("PUT", f"/budgets/key:{KEY_ID}", {"limit_usd": "100"})
        refused: list[Seen] = []

        async def harm() -> None:
            with OUTAGES[outage](server):
                answers = await asyncio.gather(*(call(running, n) for n in range(20)))
                refused.extend(one for one in answers if one)
            await running.takes_calls()

        seen = await storm(running, harm)
        assert refused and [one for one in refused if one.status != 503] == []
        await assert_whole(running, server, seen)


async def know_the_limit(running: Gateways) -> None:
    """Until every gateway tells a user of a limit, which the next ones share."""
    async with asyncio.timeout(WHOLE_WITHIN_S):
        for number in range(len(running.ports)):
            while not await is_told_of_a_limit(running, number):  # noqa: ASYNC110
                await asyncio.sleep(0.3)


async def is_told_of_a_limit(running: Gateways, number: int) -> bool:
    one = await call(running, number, "carol")
    return one is not None and one.requests_limit is not None


async def know_of_each_other(running: Gateways, server: RedisServer) -> None:
    """Until every gateway has had a heartbeat since all of them had one: with it they are told
    how many there are."""
    redis = server.client()
    try:
        async with asyncio.timeout(WHOLE_WITHIN_S):
            first: dict[bytes, float] = {}
            while len(first) < len(running.ports):
                first = dict(await redis.zrange(GATEWAYS_KEY, 0, -1, withscores=True))
                await asyncio.sleep(0.1)
            later = first
            while any(later[name] == beat for name, beat in first.items()):
                later = dict(await redis.zrange(GATEWAYS_KEY, 0, -1, withscores=True))
                await asyncio.sleep(0.1)
    finally:
        await redis.aclose()


async def test_caps_and_rates_of_several_gateways_hold_while_redis_is_away(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    """Eight tenths of the requests, by both gateways together, for each end user."""
    async with gateways(server, tmp_path, upstream.address, count=2) as running:
        limits = {"requests_per_minute": 20}
        await running.admin("PUT", f"/limits/org:{ORGANIZATION_ID}/user:*", limits)
        await know_of_each_other(running, server)
        await know_the_limit(running)
        with stopped(server):
            calls = [call(running, n, user) for n in range(30) for user in ("alice", "bob")]
            answers = await asyncio.gather(*calls)
        for answer in answers:
            assert answer is not None and answer.status in (200, 429)
        assert Counter(one.status for one in answers if one) == {200: 2 * 16, 429: 2 * 14}
        await running.takes_calls()
        await assert_whole(running, server, [one for one in answers if one])
