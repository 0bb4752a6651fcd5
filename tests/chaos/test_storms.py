"""Faults of every kind, one upon another, in an order that chance makes of a seed.

The same laws hold at the end as where a single thing went wrong. The seed is printed; one that
failed is kept in `failing_seeds.txt` and run ever after. `CHAOS_SEEDS` and `CHAOS_FAULTS` make the
long version longer.
"""

from __future__ import annotations

import asyncio
import os
from itertools import combinations
from random import Random

import pytest

from tests.chaos import faults
from tests.chaos.world import EDGES, World, running

LONG = int(os.environ.get("CHAOS_FAULTS", "60"))
AT_ONCE = (
    *(faults.kill_an_edge, faults.kill_the_ledger, faults.kill_redis, faults.wipe_redis),
    *(faults.stop_redis, faults.take_sql_down, faults.deliver_again),
)
"""One of these may come down on each of the others: together they touch no part twice."""


NOT_TOGETHER = {faults.kill_redis, faults.wipe_redis, faults.stop_redis}
"""Each needs the process of Redis for itself."""
PAIRS = [pair for pair in combinations(AT_ONCE, 2) if not NOT_TOGETHER.issuperset(pair)]
PAIRS_SHORT = 4


def every_fault(rng: Random, count: int) -> list[faults.Fault]:
    """So many, in rounds of all there are: each comes before any comes again."""
    found: list[faults.Fault] = []
    while len(found) < count:
        found += rng.sample(faults.EVERY, len(faults.EVERY))
    return found[:count]


async def storm(world: World, rng: Random, count: int) -> None:
    done = []
    async with running(world):
        await world.heard(10)
        before = world.whole
        for number, fault in enumerate(every_fault(rng, count)):
            print(f"{number}: {fault.__name__}")
            await world.supervise()
            await fault(world, rng)
            done.append(fault)
            await asyncio.sleep(rng.uniform(0, 0.3))
        await world.heard(10)
        books = await world.finish(rng)
    assert set(done) == set(faults.EVERY), "every fault was done"
    assert world.whole > before
    assert len(books.events) >= world.whole


@pytest.mark.timeout(480)
async def test_storm_of_every_fault_charges_every_call_once(world: World, seed: int) -> None:
    await storm(world, Random(f"storm {seed}"), len(faults.EVERY))


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_long_storm_of_every_fault_charges_every_call_once(world: World, seed: int) -> None:
    await storm(world, Random(f"storm {seed}"), LONG)


async def pairs_at_once(world: World, rng: Random, count: int) -> None:
    """Redis and SQL away together, a ledger that dies while Redis is emptied, and so on."""
    pairs = rng.sample(PAIRS, count)
    done = 0
    async with running(world):
        for pair in pairs:
            await world.heard(5)
            print(" and ".join(fault.__name__ for fault in pair))
            await asyncio.gather(*(fault(world, rng) for fault in pair))
            await world.supervise()
            done += 1
        for name in EDGES:
            await world.said(name, "ready")
        await world.heard(10)
        await world.finish(rng)
    assert done == count, "every pair was done"


@pytest.mark.timeout(480)
async def test_two_faults_at_once_charge_every_call_once(world: World, seed: int) -> None:
    await pairs_at_once(world, Random(f"pairs {seed}"), PAIRS_SHORT)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_any_two_faults_at_once_charge_every_call_once(world: World, seed: int) -> None:
    await pairs_at_once(world, Random(f"all pairs {seed}"), len(PAIRS))
