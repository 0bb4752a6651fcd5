"""The harm that is done to a world, each kind a function of it and of chance.

Every one leaves the world able to go on: what is killed is started again, what is stopped goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random
from typing import Any

from redis.exceptions import RedisError

from billing.limits.keys import shard_of, usage_key
from tests.chaos.plan import ORGS
from tests.chaos.world import EDGES, LEDGER, World

Fault = Callable[[World, Random], Awaitable[None]]


async def kill_an_edge(world: World, rng: Random) -> None:
    """In the middle of whatever its calls are at; it comes back, maybe not before the reaper."""
    name = rng.choice(EDGES)
    await world.kill9(name)
    await asyncio.sleep(rng.choice((0.0, 0.3, 2.5)))
    await world.start_edge(name)


async def stop_an_edge(world: World, rng: Random) -> None:
    """It sleeps, maybe past its leases, and goes on."""
    name = rng.choice(EDGES)
    world.signal(name, signal.SIGSTOP)
    await asyncio.sleep(rng.choice((0.3, 1.0, 5.0)))
    world.signal(name, signal.SIGCONT)


async def kill_the_ledger(world: World, rng: Random) -> None:
    await world.kill9(LEDGER)
    await asyncio.sleep(rng.uniform(0, 0.5))
    await world.start_ledger()


async def kill_redis(world: World, rng: Random) -> None:
    """What it had acknowledged and not written is gone; the rest is there again."""
    world.redis.kill9()
    await asyncio.sleep(rng.uniform(0, 0.5))
    await asyncio.to_thread(world.redis.start)


async def wipe_redis(world: World, rng: Random) -> None:
    await asyncio.to_thread(world.redis.wipe)


async def empty_redis(world: World, rng: Random) -> None:
    """The same process, with nothing in it."""
    client: Any = world.redis.client()
    try:
        await client.flushall()
    except RedisError:
        pass
    finally:
        await client.aclose()


async def stop_redis(world: World, rng: Random) -> None:
    """It hangs: connections stand, and nothing is answered."""
    pid = world.redis.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(rng.uniform(0.2, 1.2))
    finally:
        os.kill(pid, signal.SIGCONT)


async def starve_redis(world: World, rng: Random) -> None:
    """It has no room left, and takes nothing new; what it has it keeps."""
    client: Any = world.redis.client()
    try:
        await client.config_set("maxmemory", "100kb")
        await asyncio.sleep(rng.uniform(0.3, 0.8))
    finally:
        await client.config_set("maxmemory", "0")
        await client.aclose()


async def lock_sql(world: World, rng: Random) -> None:
    async with world.database.locked():
        await asyncio.sleep(rng.uniform(0.3, 1.0))


async def take_sql_down(world: World, rng: Random) -> None:
    async with world.database.down():
        await asyncio.sleep(rng.uniform(0.1, 0.8))


async def fill_the_disk_of_sql(world: World, rng: Random) -> None:
    pid = world.parts[LEDGER].process.pid
    await world.database.fill(pid)
    try:
        await asyncio.sleep(rng.uniform(0.3, 0.8))
    finally:
        await world.database.clear(pid)


async def fill_the_disk_of_an_edge(world: World, rng: Random) -> None:
    """Half a line still fits, and no more."""
    knobs = world.knobs(rng.choice(EDGES))
    knobs.disk_is_full = True
    await asyncio.sleep(rng.uniform(0.2, 0.6))
    knobs.disk_is_full = False


async def deliver_again(world: World, rng: Random) -> None:
    """A part of everything that was ever delivered, duplicated and in another order."""
    with suppress(RedisError, OSError):  # another fault may have it
        await world.redeliver(rng, share=0.3)


async def poison(world: World, rng: Random) -> None:
    """Records that nobody could book, among those that can be."""
    client: Any = world.redis.client()
    nonsense: list[dict[str, bytes]] = [
        {"k": b"settled", "p": b"{not json"},
        {"k": b"settled", "p": b'{"v":1}'},
        {"k": b"settled", "p": b'{"v":99,"rid":"x"}'},
        {"k": b"a kind of its own", "p": b"{}"},
        {"k": b"reserved", "p": b"\xff\xfe"},
        {"p": b"without a kind"},
    ]
    try:
        for number, fields in enumerate(rng.sample(nonsense, 3)):
            rid = f"poison-{len(world.poisoned)}-{number}"
            await client.xadd(usage_key(shard_of(rng.choice(ORGS))), fields | {"r": rid})
            world.poisoned.append(rid)
    except RedisError:
        pass
    finally:
        await client.aclose()


async def jump_clocks(world: World, rng: Random) -> None:
    """Of one part or of several, by seconds or by hours, in either direction."""
    for name in rng.sample((LEDGER, *EDGES), rng.randint(1, 3)):
        knobs = world.knobs(name)
        knobs.clock_off_s = rng.choice((-7_200.0, -30.0, -1.0, 1.0, 30.0, 7_200.0))
    await asyncio.sleep(rng.uniform(0.2, 0.8))
    for name in (LEDGER, *EDGES):
        world.knobs(name).clock_off_s = 0.0


async def rival_ledger(world: World, rng: Random) -> None:
    """A second writer with a name of its own, that takes over what the first one has in hand."""
    await world.start_ledger("rival", consumer="rival")
    await asyncio.sleep(rng.uniform(0.8, 1.5))
    await world.kill9("rival")


async def wake_a_ledger_that_was_replaced(world: World, rng: Random) -> None:
    """It slept with a batch in its hands, another took its place, and now it goes on."""
    world.signal(LEDGER, signal.SIGSTOP)
    await world.start_ledger("successor", consumer="successor")
    await asyncio.sleep(rng.uniform(0.8, 1.5))
    world.signal(LEDGER, signal.SIGCONT)
    await asyncio.sleep(rng.uniform(0.1, 0.4))
    await world.kill9(LEDGER)
    await world.kill9("successor")
    await world.start_ledger()


EVERY: tuple[Fault, ...] = (
    *(kill_an_edge, kill_the_ledger, kill_redis, wipe_redis, empty_redis, stop_redis, starve_redis),
    *(lock_sql, take_sql_down, fill_the_disk_of_sql, fill_the_disk_of_an_edge),
    *(deliver_again, poison, jump_clocks, rival_ledger, wake_a_ledger_that_was_replaced),
)
