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

from billing.checks.report import Outcome
from billing.money import nanousd
from billing.queries import call_by_rid
from billing.store.engine import Store, open_store
from billing.verify import verify_all
from gateway.admin.bootstrap import KEY_ID, ORGANIZATION_ID
from gateway.upstream import fake
from tests.gateway.outages import OUTAGES, stopped
from tests.gateway_processes import API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

CALLERS = 8
WHOLE_WITHIN_S = 120.0
ANSWERED_WITHIN_S = 60.0


@dataclass
class Seen:
    """`cost` is what the answer said it cost, where it came to its end."""

    status: int
    rid: str
    cost_nanousd: int | None
    took_s: float


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
        last = fake.plain_frame(finish="stop") + fake.plain_usage(10, count) + fake.DONE
        return fake.Script([*acts, fake.Send(last)])

    async with fake.FakeUpstream(tell) as running:
        yield running


async def call(running: Gateways, number: int, user: str = "u") -> Seen | None:
    """One streamed call; None where its gateway was not there or died under it."""
    sent = {
        "model": "outside",
        "messages": [{"role": "user", "content": "Tell a story."}],
        "max_tokens": 64,
        "user": user,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    started = time.monotonic()
    named = {"authorization": f"Bearer {API_KEY}"}
    url = running.url(number, "/v1/chat/completions")
    try:
        async with running.session.post(url, json=sent, headers=named) as response:
            text = await response.text()
    except aiohttp.ClientError:
        return None
    cost = None
    if text.endswith("data: [DONE]\n\n"):
        events = [json.loads(e[6:]) for e in text.split("\n\n") if e.startswith("data: {")]
        cost = nanousd(str(events[-1]["usage"]["cost"]))
    rid = response.headers["x-request-id"]
    return Seen(response.status, rid, cost, time.monotonic() - started)


async def keep_calling(running: Gateways, number: int, stop: asyncio.Event) -> list[Seen]:
    found = []
    while not stop.is_set():
        if seen := await call(running, number):
            found.append(seen)
        await asyncio.sleep(0.02)
    return found


async def storm(running: Gateways, harm: Any) -> list[Seen]:
    """Calls to all gateways before, during and after the harm."""
    stop = asyncio.Event()
    callers = [asyncio.create_task(keep_calling(running, n, stop)) for n in range(CALLERS)]
    await asyncio.sleep(0.7)
    await harm()
    await asyncio.sleep(1.5)
    stop.set()
    return [seen for caller in callers for seen in await caller]


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
        assert found[200] > 20 and set(found) <= {200, 503}
        assert max(one.took_s for one in seen) < ANSWERED_WITHIN_S
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
                await asyncio.sleep(0.3)
                answers = await asyncio.gather(*(call(running, n) for n in range(20)))
                refused.extend(one for one in answers if one)
            await running.takes_calls()

        seen = await storm(running, harm)
        assert {one.status for one in refused} == {503}
        assert max(one.took_s for one in refused) < ANSWERED_WITHIN_S
        assert Counter(one.status for one in seen)[200] > 10
        await assert_whole(running, server, seen)


async def test_caps_and_rates_of_several_gateways_hold_while_redis_is_away(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    """Eight tenths of the requests, by both gateways together, for each end user."""
    async with gateways(server, tmp_path, upstream.address, count=2) as running:
        limits = {"requests_per_minute": 20}
        await running.admin("PUT", f"/limits/org:{ORGANIZATION_ID}/user:*", limits)
        await asyncio.sleep(1.5)  # until every gateway knows of both
        with stopped(server):
            calls = [call(running, n, user) for n in range(30) for user in ("alice", "bob")]
            answers = await asyncio.gather(*calls)
        for answer in answers:
            assert answer is not None and answer.status in (200, 429)
        assert Counter(one.status for one in answers if one) == {200: 2 * 16, 429: 2 * 14}
        await running.takes_calls()
        await assert_whole(running, server, [one for one in answers if one])
