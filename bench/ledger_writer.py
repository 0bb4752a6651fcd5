"""How many usage records a second the writer books: Redis stream to committed SQLite rows.

    python -m bench.ledger_writer [--calls 20000] [--data DIR] [--postgres] [--rounds 1] [--full]
                                  [--bare] [--followed]

Starts a real Redis, puts a reserved and a settled record of every call into its stream, and runs
the writer until all are booked and acknowledged; then delivers everything a second time, and last
verifies every law. With `--full` a call has what a call can have: an attempt that cost
GPU-seconds, the decision that led there, a grant of credit that pays for it, and two budgets.
SQLite runs as in production: WAL, synchronous=FULL; PostgreSQL with its own defaults, which make
every commit durable; its CPU is that of all its processes. With several rounds each has a database
of its own, and the figures are medians. `--bare` writes the same rows again into a database beside
it, in as many transactions and in a bare loop: no stream, no rating, no sums, no balances. That is
what no writer of them can pass. `--followed` has a webhook endpoint that takes usage, so that each
booking leaves its place; nothing is sent meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psutil
from redis.asyncio import Redis
from sqlalchemy import select

from billing.budgets.store import COUNTED
from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store, open_store
from billing.db.insert import insert_rows
from billing.ledger.store import ACCOUNT, TRANSFER
from billing.limits.keys import shard_of, usage_key
from billing.outbox.store import insert_endpoint
from billing.outbox.usage.places import follow
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from billing.settings import LedgerSettings
from billing.tuning import collect_less, switch_often
from billing.types import Attempt, BudgetShare, SettledCall, encode
from billing.usage.store import ATTEMPT, CALL, EVENT
from billing.verify import verify_all
from billing.writer.stream import UsageStreams
from billing.writer.writer import Writer
from migrations.run import migrate
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer

Figures = dict[str, float | int | bool]
ORGS = 100
PRICE = 1_000_000
CANDIDATE = {
    "pool": "large-reserved",
    "model": "tale-large",
    "capacity_class": "reserved",
    "score": 123_456,
    "price_nanousd": 700,
    "reason": "warm, 0.4 s to wait; run 84000 + start 0 + wait 39456 nano-USD",
}
"""One of a decision, about as long as they are."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--data", help="folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--postgres", action="store_true", help="into PostgreSQL, not SQLite")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--full", action="store_true", help="attempts, decisions, credits, budgets")
    parser.add_argument("--bare", action="store_true", help="the same rows in a bare loop, too")
    parser.add_argument("--followed", action="store_true", help="an endpoint takes usage")
    arguments = parser.parse_args()
    collect_less()  # as the ledger process does
    switch_often()
    rounds = [once(arguments) for _ in range(arguments.rounds)]
    figures = {name: statistics.median(figure[name] for figure in rounds) for name in rounds[0]}
    print(json.dumps(figures, indent=2))


def once(arguments: argparse.Namespace) -> Figures:
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="sl-", dir=arguments.data))
        )
        server = stack.enter_context(RedisServer(folder))
        url, bare_url = (f"sqlite:///{folder / name}" for name in ("ledger.db", "bare.db"))
        postgres = None
        if arguments.postgres:
            postgres = durable_postgres(folder)
            stack.enter_context(postgres).psql("CREATE DATABASE bare OWNER sluice")
            url, bare_url = postgres.url(), postgres.url("bare")
        figures = asyncio.run(measure(server, url, arguments, cpu_s_of(postgres)))
        if arguments.bare:
            batches = math.ceil(2 * arguments.calls / LedgerSettings().batch_max)
            bare_s = write_again(url, bare_url, batches)
            figures["bare_events_per_s"] = round(arguments.calls / bare_s)
        return figures


def durable_postgres(folder: Path) -> PostgresServer:
    """One that keeps what it has committed through a power cut, as it comes."""
    return PostgresServer(folder / "pg", password=secrets.token_hex(8), waits_for_disk=True)


def cpu_s_of(server: PostgresServer | None) -> Callable[[], float]:
    """What asks for the CPU seconds of all its processes so far."""
    if server is None:
        return lambda: 0.0
    first = psutil.Process(server.pid)

    def all_cpu_s() -> float:
        return sum(sum(one.cpu_times()[:2]) for one in (first, *first.children()))

    return all_cpu_s


def write_again(url: str, bare_url: str, batches: int) -> float:
    """Seconds for the rows that calls leave, from one database into an empty one."""
    source = open_store(url)
    with source.read() as conn:
        rows = {
            table: [dict(row) for row in conn.execute(select(table)).mappings()]
            for table in (ACCOUNT, EVENT, CALL, ATTEMPT, COUNTED, TRANSFER)
        }
    source.close()
    migrate(bare_url)
    target = open_store(bare_url)
    with target.write() as conn:
        insert_rows(conn, ACCOUNT, rows.pop(ACCOUNT))
    begun = time.perf_counter()
    for batch in range(batches):
        with target.write() as conn:
            for table, found in rows.items():
                part = -(-len(found) // batches)
                insert_rows(conn, table, found[batch * part : (batch + 1) * part])
    spent_s = time.perf_counter() - begun
    target.close()
    return spent_s


async def measure(
    server: RedisServer,
    url: str,
    arguments: argparse.Namespace,
    server_cpu_s: Callable[[], float],
) -> Figures:
    count = arguments.calls
    store = priced_store(url)
    if arguments.followed:
        follow_usage(store)
    redis = server.client()
    calls = [call(number) for number in range(count)]
    if arguments.full:
        grant_to_all(store)
        calls = [full(one) for one in calls]
    streams = UsageStreams(redis, "ledger")
    settings = LedgerSettings(linger_ms=0, block_ms=50)
    writer = Writer(streams, store, settings, now=time.time, tick=time.monotonic)
    await writer.turn()
    await fill(redis, calls)
    begun_s = server_cpu_s()
    first_s, cpu_s = await drain(writer, count)
    server_s = server_cpu_s() - begun_s
    await fill(redis, calls)
    second_s, _ = await drain(writer, count * 2)
    report = await verify_all(store, now_us=ADMITTED_US + 10)
    assert report.ok, report.as_text()
    size_bytes = bytes_of(store)
    store.close()
    await redis.aclose()
    return {
        "calls": count,
        "records": 2 * count,
        "first_s": round(first_s, 2),
        "events_per_s": round(count / first_s),
        "cpu_us_per_event": round(cpu_s / count * 1e6),
        "server_cpu_us_per_event": round(server_s / count * 1e6),
        "replay_events_per_s": round(count / second_s),
        "batches": writer.stats.batches,
        "bytes_per_event": round(size_bytes / count),
        "load": round(os.getloadavg()[0], 1),
        "laws_hold": report.ok,
    }


def bytes_of(store: Store) -> int:
    """Of the whole database, what its log still holds left out."""
    sizes = {
        "sqlite": "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        "postgresql": "SELECT pg_database_size(current_database())",
    }
    with store.read() as conn:
        return int(conn.exec_driver_sql(sizes[conn.dialect.name]).scalar_one())


def priced_store(url: str) -> Store:
    migrate(url)
    store = open_store(url)
    rates = [
        PriceRate(model="tale-large", tier="default", component=part, nanousd_per_mtok=PRICE)
        for part in (Component.INPUT, Component.OUTPUT)
    ]
    put_into_force(store, rates, by="bench", now_us=1, version_id="pv_1")
    return store


def follow_usage(store: Store) -> None:
    row = {"endpoint_id": "wh_bench", "url": "https://example.com/", "events": ["usage"]}
    row |= {"org": "", "note": "", "is_enabled": True, "secret": "", "previous_secret": ""}
    row |= {"previous_until_us": 0, "created_us": 1, "changed_us": 1}
    with store.write() as conn:
        insert_endpoint(conn, row)
        follow(conn, row, 1)


def call(number: int) -> SettledCall:
    opened = opened_call(
        f"req_{number:032x}", org=f"org_{number % ORGS}", key=f"key_{number % ORGS}"
    )
    return settled_call(opened, 44 + 56)


def full(one: SettledCall) -> SettledCall:
    """The call with an attempt, a decision and two budgets that bind it."""
    tried = Attempt(
        pool=one.pool,
        replica="large-reserved-0",
        started_us=one.admitted_us,
        ended_us=one.ended_us,
        outcome="answered",
        input=one.input,
        output=one.output,
        model=one.model,
        busy_us=40_000,
        nanousd_per_s=700_000,
    )
    month = BudgetShare(budget=f"bud_{one.org}", start_us=1, is_hard=True)
    day = BudgetShare(budget=f"bud_{one.key}", start_us=1)
    return msgspec.structs.replace(
        one, attempts=[tried], budgets=[month, day], decision={"candidates": [CANDIDATE] * 3}
    )


def grant_to_all(store: Store) -> None:
    for number in range(ORGS):
        grant = Grant(
            grant_id=f"grant_{number}",
            org=f"org_{number}",
            category=Category.PAID,
            amount_nanousd=10**15,
            effective_us=2,
            created_us=2,
        )
        give(store, grant, created_by="bench", now_us=2)


async def fill(redis: Redis, calls: list[SettledCall]) -> None:
    for start in range(0, len(calls), 1000):
        pipe = redis.pipeline(transaction=False)
        for one in calls[start : start + 1000]:
            opened = opened_call(one.rid, org=one.org, key=one.key)
            key = usage_key(shard_of(one.org))
            pipe.xadd(key, {"k": "reserved", "r": one.rid, "p": encode(opened)})
            pipe.xadd(key, {"k": "settled", "r": one.rid, "p": encode(one)})
        await pipe.execute()


async def drain(writer: Writer, booked: int) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), sum(os.times()[:2])
    while writer.stats.events + writer.stats.repeated < booked:
        await writer.turn()
    return time.perf_counter() - begun, sum(os.times()[:2]) - cpu


if __name__ == "__main__":
    main()
