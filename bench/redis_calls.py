"""Redis CPU of one call's money: admit + settle over three scopes with every limit set.

Run as `python -m bench.redis_calls [--rounds 5] [--beside FOLDER]`; every round starts a Redis of
its own. It makes calls one by one, then sends the same commands once more in pipelines, as a Redis
sees them that is never idle. Microseconds a call: `script` is wall time in the scripts (`INFO
commandstats`, median of batches of 100), so a busy machine shows in it; `server` is CPU of the
whole process, reading, answering and the append-only file included. `floor_arguments` is that of
the same commands to a script that does nothing, `floor_records` that of the two XADDs alone.
`--meters` adds limits of input and output tokens to the key, of requests and tokens to the model,
and of requests, tokens and calls at once to the end user: seven meters.
`--budgets` puts three hard budgets on every call: a day of the key, a month of the organization,
the last hour of the end user.
`--beside` measures another checkout (`git archive COMMIT | tar x -C FOLDER`) in turn with this one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import hiredis
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import Admitted, ScopeLimits, SettleState
from billing.types import encode
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.redis_server import RedisServer

ORG = "org_1"
LEASE_S = 60.0
BATCH = 100
PIPELINE = 50

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--meters", action="store_true")
    parser.add_argument("--budgets", action="store_true")
    parser.add_argument("--beside", type=Path, help="a checkout of another commit")
    options = parser.parse_args()
    if options.rounds == 1:
        print(json.dumps(one_round(options.calls, options.meters, options.budgets)))
        return
    trees = {"here": Path.cwd()} | ({"beside": options.beside} if options.beside else {})
    rounds: dict[str, list[Figures]] = {tree: [] for tree in trees}
    for _ in range(options.rounds):
        for tree, folder in trees.items():
            chosen = options.calls, options.meters, options.budgets
            rounds[tree].append(round_of(folder, *chosen))
            print(json.dumps({"tree": tree} | rounds[tree][-1]), flush=True)
    for tree, found in rounds.items():
        medians = {name: median(figures[name] for figures in found) for name in found[0]}
        print(json.dumps({"tree": tree, "median_of": options.rounds} | medians))


def round_of(folder: Path, calls: int, meters: bool, budgets: bool) -> Figures:
    """One round of this file over the code of a folder."""
    done = subprocess.run(
        [
            *(sys.executable, __file__, "--rounds", "1", "--calls", str(calls)),
            *(["--meters"] if meters else []),
            *(["--budgets"] if budgets else []),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder.resolve())},
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    return figures


def one_round(calls: int, meters: bool, budgets: bool) -> Figures:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
    ):
        figures = asyncio.run(measure(server, calls, limits(meters), shares(budgets)))
    return {name: round(value, 1) for name, value in figures.items()}


async def measure(
    server: RedisServer, calls: int, scopes: Sequence[ScopeLimits], budgets: Sequence[Any]
) -> Figures:
    redis = server.client()
    holds = Holds(redis, timeout_s=5.0)
    await open_shard(holds)
    with recording() as commands:
        figures = await one_by_one(redis, holds, calls, scopes, budgets)
    await redis.flushall()
    await open_shard(holds)
    nothing = await redis.script_load("return 1")
    for name, replayed in (
        ("server_us", commands),
        ("floor_arguments_us", [with_script(command, nothing) for command in commands]),
        ("floor_records_us", records(calls)),
    ):
        before_s = await cpu_s(redis)
        await pipelined(server, replayed)
        figures[name] = (await cpu_s(redis) - before_s) / calls * 1e6
    assert await redis.xlen(keys.usage_key(keys.shard_of(ORG))) == 2 * calls
    await redis.aclose()
    return figures


async def one_by_one(
    redis: Redis,
    holds: Holds,
    calls: int,
    scopes: Sequence[ScopeLimits],
    budgets: Sequence[Any],
) -> Figures:
    """On one connection; all calls of a batch are admitted, then all are settled."""
    bound: dict[str, Any] = {"budgets": list(budgets)} if budgets else {}
    asked = {"purses": purses_of(budgets)} if budgets else {}
    admits_us, settles_us = [], []
    before_s, before_bytes = await cpu_s(redis), await aof_bytes(redis)
    for first in range(0, calls, BATCH):
        batch = [opened_call(f"req_{first + i:032d}", **bound) for i in range(BATCH)]
        await redis.config_resetstat()
        for call in batch:
            admitted = await holds.admit(call, scopes, lease_s=LEASE_S, **asked)
            assert isinstance(admitted, Admitted)
        admits_us.append(await script_us(redis))
        await redis.config_resetstat()
        for call in batch:
            assert await holds.settle(settled_call(call, **bound)) is SettleState.SETTLED
        settles_us.append(await script_us(redis))
    return {
        "script_admit_us": median(admits_us),
        "script_settle_us": median(settles_us),
        "script_us": median(admits_us) + median(settles_us),
        "server_one_by_one_us": (await cpu_s(redis) - before_s) / calls * 1e6,
        "aof_bytes": (await aof_bytes(redis) - before_bytes) / calls,
    }


@contextmanager
def recording() -> Iterator[list[bytes]]:
    """The EVALSHA commands of the block, as they go over the wire."""
    commands: list[bytes] = []
    pack = hiredis.pack_command

    def packed(command: Any) -> bytes:
        data = pack(command)
        if command[0] == "EVALSHA":
            commands.append(data)
        return data

    with patch.object(hiredis, "pack_command", packed):
        yield commands


def with_script(command: bytes, sha: str) -> bytes:
    """The same command for another script."""
    head, tail = command.split(b"$40\r\n", 1)
    return head + b"$40\r\n" + sha.encode() + tail[40:]


def records(calls: int) -> list[bytes]:
    """What both scripts add to the stream, without scripts."""
    opened, settled = opened_call(f"req_{0:032d}"), settled_call(opened_call(f"req_{0:032d}"))
    pair = [
        hiredis.pack_command(("XADD", "records", "*", "k", kind, "r", opened.rid, "p", payload))
        for kind, payload in (("reserved", encode(opened)), ("settled", encode(settled)))
    ]
    return pair * calls


async def pipelined(server: RedisServer, commands: Sequence[bytes]) -> None:
    reader, writer = await asyncio.open_unix_connection(str(server.socket))
    replies: Any = hiredis.Reader()
    for first in range(0, len(commands), PIPELINE):
        batch = commands[first : first + PIPELINE]
        writer.write(b"".join(batch))
        missing = len(batch)
        while missing:
            reply = replies.gets()
            if reply is False:
                replies.feed(await reader.read(1 << 20))
                continue
            assert not isinstance(reply, Exception), reply
            missing -= 1
    writer.close()


def limits(meters: bool) -> tuple[ScopeLimits, ...]:
    """Of key, project and organization; with meters also of directions, model and end user."""
    if not meters:
        return tuple(owners())
    rates: dict[str, Any] = {"requests_per_minute": 6_000_000, "tokens_per_minute": 90_000_000}
    key, *others = owners()
    by_direction = replace(
        key, input_tokens_per_minute=90_000_000, output_tokens_per_minute=90_000_000
    )
    model = ScopeLimits(scope=f"{key.scope}/model:m", is_narrow=True, **rates)
    user = ScopeLimits(scope=f"org:{ORG}/user:u", is_narrow=True, concurrency=10**6, **rates)
    return by_direction, *others, model, user


def shares(budgets: bool) -> list[Any]:
    """Imported here, for a checkout beside this one may be older than they are."""
    if not budgets:
        return []
    from billing.types import BudgetShare

    day_us = 86_400_000_000
    start_us = ADMITTED_US - ADMITTED_US % day_us
    return [
        BudgetShare(budget="bud_day", start_us=start_us, until_us=start_us + day_us, is_hard=True),
        BudgetShare(
            budget="bud_month", start_us=start_us, until_us=start_us + 30 * day_us, is_hard=True
        ),
        BudgetShare(
            budget="bud_hour",
            subject="0123456789abcdef0123456789abcdef",
            span_us=3_600_000_000,
            width_us=72_000_000,
            is_hard=True,
        ),
    ]


def purses_of(budgets: Sequence[Any]) -> list[Any]:
    from billing.limits.types import purse_of

    return [purse_of(share, 10**15) for share in budgets]


def owners() -> list[ScopeLimits]:
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


async def cpu_s(redis: Redis) -> float:
    """CPU seconds of the server process so far."""
    cpu = await redis.info("cpu")
    return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


async def aof_bytes(redis: Redis) -> int:
    return int((await redis.info("persistence"))["aof_current_size"])


if __name__ == "__main__":
    main()
