"""What `test_exactly_once` does to the money part of a gateway, done to whole ones over HTTP.

They are killed at each step of a call, sleep past their leases, or are wrong; the auditor is that
of the soak.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.chaos import faults
from tests.chaos.soak_auditor import Harm, SoakAuditor
from tests.chaos.soak_plan import tenants
from tests.chaos.soak_world import GatewayWorld, called, whole_gateways
from tests.chaos.world import AUDIT_EVERY_S, DIES_WITHIN_S, EDGES

pytestmark = pytest.mark.timeout(480)
KINDS = [tenant for tenant in tenants(60.0) if tenant.name in ("plain", "prepaid", "hard")]
HARM = faults.kill_an_edge.__name__
SLEPT_WITHIN_S = 240.0
PAUSE_S = 0.4
"""Of a caller: a step is reached once so many calls were made."""
BEFORE_IT_ADMITS = ("holds.admit:before:5", "holds.admit:after:6", "spool.opened:before:7")
IN_THE_MIDDLE_OF_STREAMS = (
    *("spool.opened:after:9", "spool.checkpoint:before:6"),
    *("spool.checkpoint:after:6", "holds.renew:after:6"),
)
BETWEEN_THE_END_AND_ITS_SETTLING = (
    *("spool.closed:before:9", "spool.closed:after:9"),
    *("holds.settle:before:9", "holds.settle:after:9"),
)
STEPS = (BEFORE_IT_ADMITS, IN_THE_MIDDLE_OF_STREAMS, BETWEEN_THE_END_AND_ITS_SETTLING)


@asynccontextmanager
async def audited(world: GatewayWorld, seed: int, answers: int = 15) -> AsyncIterator[GatewayWorld]:
    """Harm is done to gateways in the block; before and after it there are answers, and at the end
    an audit."""
    world.callers_pause_s = PAUSE_S
    async with whole_gateways(world):
        world.auditor = SoakAuditor(world, KINDS)
        async with called(world, KINDS):
            await world.heard(answers)
            began_s = time.time()
            yield world
            world.auditor.harms.append(Harm(HARM, began_s, time.time()))
            await world.heard(answers)
        world.books = await world.finish(Random(seed))


async def test_whole_gateway_killed_at_a_step_charges_every_call_once(
    gateway_world: GatewayWorld, seed: int
) -> None:
    """At one step after another: a world takes longer to start than to be harmed."""
    async with audited(gateway_world, seed) as world:
        for steps in STEPS:
            await world.dies_at(EDGES[0], *steps)


async def test_whole_gateway_that_slept_past_its_leases_corrects_what_was_estimated(
    gateway_world: GatewayWorld, seed: int
) -> None:
    rng = Random(seed)
    async with audited(gateway_world, seed) as world:
        async with asyncio.timeout(SLEPT_WITHIN_S):
            while not (await asyncio.to_thread(world.auditor.read)).corrections:
                await faults.stop_an_edge(world, rng)
                await asyncio.sleep(rng.uniform(0, 0.5))
    assert any(rows[-1]["source"] == "exact" for rows in world.books.corrections.values())


async def test_auditor_finds_whole_gateways_that_bill_half(
    gateway_world: GatewayWorld, seed: int
) -> None:
    """It goes by what clients heard, by the plan and by its own price list."""
    async with whole_gateways(gateway_world, bills_half=True) as world:
        world.auditor = SoakAuditor(world, KINDS)
        async with called(world, KINDS):
            await world.heard(10)

            async def are_found() -> bool:
                books = await asyncio.to_thread(world.auditor.read)
                return sum("is owed" in why for why in world.auditor.breaks(books)) > 1

            await world.until(are_found, DIES_WITHIN_S, lambda: "halves", AUDIT_EVERY_S)
