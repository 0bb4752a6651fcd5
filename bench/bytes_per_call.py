"""What a call leaves behind on its way to SQL: bytes of spool, of Redis' memory and of its log.

    python -m bench.bytes_per_call [--calls 2000]

Each call has everything a call can have, as in `bench.ledger_writer --full`, and is admitted and
settled once over three scopes. `hold` is memory while calls are open, `settled` what is kept of
them until the writer has them (their stream) or a while longer; scripts and keys of scopes, which
there are few of, are left out by subtracting what one call more or less costs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from pathlib import Path

from redis.asyncio import Redis

from bench.ledger_writer import call, full
from bench.redis_calls import aof_bytes
from billing.limits.holds import Holds
from billing.spool.spool import Spool
from billing.types import SettledCall
from tests.billing.calls import opened_call
from tests.billing.ledger_parts import open_shards, unlimited
from tests.redis_server import RedisServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=2000)
    count = parser.parse_args().calls
    with tempfile.TemporaryDirectory(prefix="sl-") as folder, RedisServer(Path(folder)) as server:
        asyncio.run(write_spool(Path(folder), count))
        spool = sum(path.stat().st_size for path in Path(folder).rglob("spool/**/*.log")) // count
        print(json.dumps({"spool": spool, **asyncio.run(in_redis(server, count))}))


def calls(count: int) -> list[SettledCall]:
    return [full(call(number)) for number in range(count)]


async def write_spool(folder: Path, count: int) -> None:
    async with Spool(folder / "spool", "gw") as spool:
        for one in calls(count):
            spool.opened(opened_call(one.rid, org=one.org, key=one.key, budgets=one.budgets))
            spool.closed(one)


async def in_redis(server: RedisServer, count: int) -> dict[str, int]:
    redis = server.client()
    await open_shards(redis)
    holds = Holds(redis)
    made = calls(2 * count)
    for one in made[:count]:  # whatever is made once is there afterwards
        await admit(holds, one)
        await holds.settle(one)
    before, log = await memory(redis), await aof_bytes(redis)
    for one in made[count:]:
        await admit(holds, one)
    held = await memory(redis)
    for one in made[count:]:
        await holds.settle(one)
    settled, logged = await memory(redis), await aof_bytes(redis)
    await redis.aclose()
    return {
        "hold": (held - before) // count,
        "settled": (settled - before) // count,
        "log": (logged - log) // count,
    }


async def admit(holds: Holds, one: SettledCall) -> None:
    opened = opened_call(one.rid, org=one.org, key=one.key, budgets=one.budgets)
    await holds.admit(opened, unlimited(opened), lease_s=60)


async def memory(redis: Redis) -> int:
    found: int = (await redis.info("memory"))["used_memory_dataset"]
    return found


if __name__ == "__main__":
    main()
