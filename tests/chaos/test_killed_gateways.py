"""A whole gateway killed at a step of a call over HTTP, and a client that asks again elsewhere
under the same idempotency key: it is the same call, run once, and charged what was made of it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from billing.db.engine import open_store
from billing.money import nanousd
from billing.queries import call_by_rid
from gateway.upstream import fake
from tests.chaos import gateway_process
from tests.gateway_processes import API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

PIECES = 6
REPORTED = 9
"""Tokens of output: a piece is not always one."""
BOOKED_WITHIN_S = 60.0
DIES_WITHIN_S = 90
ASKS_MAX = 6


@pytest.fixture
async def upstream() -> AsyncIterator[fake.FakeUpstream]:
    def tell(_: fake.Request) -> fake.Script:
        words: list[fake.Act] = []
        for number in range(PIECES):
            words += [fake.Send(fake.plain_frame(f"w{number} ")), fake.Pause(0.02)]
        last = fake.plain_frame(finish="stop") + fake.plain_usage(7, REPORTED) + fake.DONE
        return fake.Script([*words, fake.Send(last)])

    async with fake.FakeUpstream(tell) as running:
        yield running


async def ask(running: Gateways, number: int, key: str) -> tuple[str, str]:
    """Request id and whatever came of a streamed call."""
    sent = {
        "model": "outside",
        "messages": [{"role": "user", "content": "Tell a story."}],
        "max_tokens": 64,
        "stream": True,
    }
    named = {"authorization": f"Bearer {API_KEY}", "idempotency-key": key}
    url = running.url(number, "/v1/chat/completions")
    rid, text = "", ""
    try:
        async with running.session.post(url, json=sent, headers=named) as response:
            rid = response.headers["x-request-id"]
            async for line in response.content:
                text += line.decode()
    except aiohttp.ClientError:
        pass
    return rid, text


def error_of(told: str) -> dict[str, Any]:
    """Of the last event, or of an answer that is nothing but an error."""
    last = told.strip().rpartition("\n")[2].removeprefix("data: ")
    found: dict[str, Any] = json.loads(last)["error"]
    return found


async def until_settled(running: Gateways, key: str) -> tuple[str, str]:
    """As a client does that is told to come again: the lease of the dead one has to lapse."""
    for _ in range(ASKS_MAX):
        rid, told = await ask(running, 1, key)
        if error_of(told)["code"] != "server_is_overloaded":
            break
    return rid, told


async def charged(running: Gateways, rid: str) -> Any:
    """The record of a call once it is in the ledger."""
    store = open_store(f"sqlite:///{running.data / 'sluice.db'}")
    try:
        async with asyncio.timeout(BOOKED_WITHIN_S):
            while (found := await asyncio.to_thread(call_by_rid, store, rid)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            return found
    finally:
        store.close()


@pytest.mark.timeout(300)
async def test_call_of_a_killed_gateway_is_the_same_call_for_whoever_asks_again(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    async with gateways(server, tmp_path, upstream.address, count=2) as running:
        steps = ("holds.admit:before:1", "spool.closed:after:1")
        for step in steps:
            running.kill9("0")
            running.start(
                *("0", gateway_process.main),
                CHAOS_DIE=step,
                SLUICE_GATEWAY__IDEMPOTENCY__LEASE_S="0.5",
            )
            await running.takes_calls()
            before = len(upstream.requests)
            await ask(running, 0, key=step)
            await asyncio.to_thread(running.processes["0"].wait, DIES_WITHIN_S)
            rid, told = await until_settled(running, key=step)
            assert await ask(running, 1, key=step) == (rid, told)
            error = error_of(told)
            assert error["code"] == "idempotent_run_lost"
            found = re.search(r"(req_\w+).*?([\d.]+) USD were charged", error["message"])
            assert found is not None, error
            lost, cost = found[1], nanousd(found[2])
            if step == steps[0]:
                assert (cost, len(upstream.requests)) == (0, before), "it was never admitted"
            else:
                record = await charged(running, lost)
                assert record.usage.amount_nanousd == cost > 0
                assert (record.usage.source, record.usage.output) == ("exact", REPORTED)
