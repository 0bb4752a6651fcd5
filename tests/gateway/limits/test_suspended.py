"""A suspended organization: its calls are refused, and those that run end as of a spent budget."""

from __future__ import annotations

import asyncio

from billing.dunning.suspension import lift, suspend
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.upstream import fake
from tests.gateway.commands.conftest import one
from tests.gateway.edge import Edge, body, story

__all__ = ["one"]


async def test_calls_are_refused_until_it_is_lifted_and_one_that_runs_ends(one: Edge) -> None:
    began, gate = asyncio.Event(), asyncio.Event()
    first, *others = story(frames=600).acts

    def long_story(_: fake.Request) -> fake.Script:
        began.set()
        return fake.Script([first, fake.Wait(gate), *others])

    one.upstream.behaviour = long_story
    running = asyncio.create_task(one.post(body(max_tokens=2000)))
    async with asyncio.timeout(60):
        await began.wait()
    with one.parts.ledger.write() as conn:
        suspend(conn, ORGANIZATION_ID, 1)
    await one.parts.revision.look()
    gate.set()
    stopped = await running
    assert (stopped.status, stopped.chunks[-2]["choices"][0]["finish_reason"]) == (200, "length")
    (call,) = (await one.settled()).values()
    assert call.error_code == "budget_exhausted"
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "organization_frozen")
    with one.parts.ledger.write() as conn:
        lift(conn, ORGANIZATION_ID, 2)
    await one.parts.revision.look()
    one.upstream.behaviour = lambda _: story()
    assert (await one.post(body())).status == 200
