"""Faults of every kind, one upon another, in an order that chance makes of a seed.

The same laws hold at the end as where a single thing went wrong. The seed is printed; one that
failed is kept in `failing_seeds.txt` and run ever after. `CHAOS_SEEDS` and `CHAOS_FAULTS` make the
long version longer.
"""

from __future__ import annotations

import asyncio
import os
from random import Random

import pytest

from tests.chaos import faults
from tests.chaos.world import EDGES, World, running

SHORT = 7
LONG = int(os.environ.get("CHAOS_FAULTS", "60"))
AT_ONCE = (
    *(faults.kill_an_edge, faults.kill_the_ledger, faults.kill_redis, faults.wipe_redis),
    *(faults.stop_redis, faults.take_sql_down, faults.deliver_again),
)
"""One of these may come down on each of the others: together they touch no part twice."""


async def storm(world: World, rng: Random, count: int) -> None:
    async with running(world):
        await world.heard(10)
        before = world.whole
        for number in range(count):
            fault = rng.choice(faults.EVERY)
            print(f"{number}: {fault.__name__}")
            await world.supervise()
            await fault(world, rng)
            await asyncio.sleep(rng.uniform(0, 0.3))
        await world.heard(10)
        books = await world.finish(rng)
    assert world.whole > before
    assert len(books.events) >= world.whole


@pytest.mark.timeout(480)
async def test_storm_of_every_fault_charges_every_call_once(world: World, seed: int) -> None:
    await storm(world, Random(f"storm {seed}"), SHORT)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_long_storm_of_every_fault_charges_every_call_once(world: World, seed: int) -> None:
    await storm(world, Random(f"storm {seed}"), LONG)


@pytest.mark.timeout(480)
async def test_two_faults_at_once_charge_every_call_once(world: World, seed: int) -> None:
    """Redis and SQL away together, a ledger that dies while Redis is emptied, and so on."""
    rng = Random(f"pairs {seed}")
    async with running(world):
        for _ in range(3):
            await world.heard(5)
            pair = rng.sample(AT_ONCE, 2)
            print(" and ".join(fault.__name__ for fault in pair))
            if {faults.kill_redis, faults.wipe_redis, faults.stop_redis}.issuperset(pair):
                continue
            await asyncio.gather(*(fault(world, rng) for fault in pair))
            await world.supervise()
        for name in EDGES:
            await world.said(name, "ready")
        await world.heard(10)
        await world.finish(rng)
