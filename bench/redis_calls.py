"""Redis microseconds of one call's money: admit + settle over three scopes with every limit set.

Run as `python -m bench.redis_calls [--calls 5000]`. Starts its own Redis in a temporary folder.
Script time is `INFO commandstats` of EVALSHA by batches, wall time within the server, so a busy
machine shows in the median and hardly in the best batch. CPU is that of the whole server process,
reading and answering included; `pairs/s per Redis core` is one second over it.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from statistics import median

from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import Admitted, ScopeLimits, SettleState
from tests.billing.calls import opened_call, settled_call
from tests.redis_server import RedisServer

ORG = "org_1"
LEASE_S = 60.0
BATCH = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
    ):
        asyncio.run(measure(server, options.calls, options.rounds))


async def measure(server: RedisServer, calls: int, rounds: int) -> None:
    redis = server.client()
    holds = Holds(redis, timeout_s=5.0)
    await open_shard(holds)
    for number in range(rounds):
        admits_us, settles_us = [], []
        before = await resources(redis)
        started = time.perf_counter()
        for first in range(0, calls, BATCH):
            batch = [opened_call(f"req_{number:04d}{first + i:028d}") for i in range(BATCH)]
            await redis.config_resetstat()
            for call in batch:
                assert isinstance(await holds.admit(call, limits(), lease_s=LEASE_S), Admitted)
            admits_us.append(await script_us(redis))
            await redis.config_resetstat()
            for call in batch:
                assert await holds.settle(settled_call(call)) is SettleState.SETTLED
            settles_us.append(await script_us(redis))
        seconds = time.perf_counter() - started
        cpu_s, aof_bytes = (b - a for a, b in zip(before, await resources(redis), strict=True))
        print(
            f"admit + settle: median {median(admits_us):.1f} + {median(settles_us):.1f} us, "
            f"best batch {min(admits_us):.1f} + {min(settles_us):.1f} us; "
            f"server CPU {cpu_s / calls * 1e6:.0f} us/pair = "
            f"{calls / cpu_s:.0f} pairs/s per Redis core; "
            f"{calls / seconds:.0f} pairs/s on one connection; "
            f"AOF {aof_bytes / calls:.0f} bytes/pair",
            flush=True,
        )
    await redis.aclose()


def limits() -> list[ScopeLimits]:
    return [
        ScopeLimits(
            scope=scope,
            requests_per_minute=6_000_000,
            tokens_per_minute=90_000_000,
            concurrency=1_000_000,
            budget_nanousd=10**15,
        )
        for scope in opened_call().scopes
    ]


async def open_shard(holds: Holds) -> None:
    shard = keys.shard_of(ORG)
    epoch = f"{await holds.run_id()}:bench"
    await holds.begin_priming(shard, epoch)
    assert await holds.prime(shard, {}, await holds.last_stream_id(shard), epoch)


async def script_us(redis: Redis) -> float:
    stats = (await redis.info("commandstats"))["cmdstat_evalsha"]
    return float(stats["usec"]) / float(stats["calls"])


async def resources(redis: Redis) -> tuple[float, int]:
    """CPU seconds of the server and bytes of its append-only file so far."""
    cpu = await redis.info("cpu")
    aof = await redis.info("persistence")
    return cpu["used_cpu_user"] + cpu["used_cpu_sys"], aof["aof_current_size"]


if __name__ == "__main__":
    main()
