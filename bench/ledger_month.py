"""A month of calls booked, asked about and verified: time, memory, bytes.

    python -m bench.ledger_month [--calls 1000000] [--tenants 1000] [--batch 2000] [--postgres]
        [--data DIR] [--keep]

Makes the calls of thirty days in the order in which they ended, busy tenants and quiet ones, gives
them to the ledger in batches as the writer does (each one durable transaction: decoded, rated,
posted, summed), then asks what pages and calls ask of usage and checks every law. Redis is left
out: `bench.ledger_writer` has it in. Prints progress on the terminal and figures as JSON; memory
is the highest of this process, which with SQLite is all there is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.ledger_writer import bytes_of, durable_postgres, priced_store
from bench.usage_queries import questions, timed
from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import silent
from billing.prices.versions import load_book
from billing.tuning import collect_less
from billing.types import Attempt, SettledCall, encode
from billing.verify import progress_on, verify_all
from tests.billing.calls import opened_call, settled_call

MONTH_US = 30 * 24 * 3_600_000_000
POOLS = ("large-reserved", "large-spot", "outside")
QUESTIONS_ROUNDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=2000)
    parser.add_argument("--postgres", action="store_true", help="into PostgreSQL, not SQLite")
    parser.add_argument("--data", help="folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="leave the database where it is")
    arguments = parser.parse_args()
    collect_less()  # as the ledger process does
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="slm-", dir=arguments.data))
        if arguments.keep:
            print(f"the database stays in {folder}", file=sys.stderr)
        else:
            stack.callback(shutil.rmtree, folder)
        url = f"sqlite:///{folder / 'ledger.db'}"
        if arguments.postgres:
            url = stack.enter_context(durable_postgres(folder)).url()
        print(json.dumps(measure(url, arguments.calls, arguments.tenants, arguments.batch)))


def measure(url: str, count: int, tenants: int, batch: int) -> dict[str, Any]:
    store = priced_store(url)
    tell = progress_on(sys.stderr, time.monotonic) if sys.stderr.isatty() else silent
    load = os.getloadavg()[0]
    figures: dict[str, Any] = {"calls": count, "tenants": tenants}
    figures |= booked(store, month(count, tenants), count, batch, tell)
    _settle_statistics(store)
    figures["bytes_per_event"] = round(bytes_of(store) / count)
    figures["rows"] = rows_of(store)
    asked = {name: timed(ask, QUESTIONS_ROUNDS) for name, ask in questions(store).items()}
    begun, cpu = time.perf_counter(), sum(os.times()[:2])
    report = asyncio.run(verify_all(store, now_us=2 * MONTH_US, progress=tell))
    assert report.ok, report.as_text()
    tell("", 0, 0)
    figures |= {
        "verify_s": round(time.perf_counter() - begun, 1),
        "verify_cpu_s": round(sum(os.times()[:2]) - cpu, 1),
        "memory_mib": memory_mib(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "questions": asked,
    }
    store.close()
    return figures


def booked(
    store: Store,
    calls: Iterator[SettledCall],
    count: int,
    batch: int,
    tell: Callable[[str, int, int], None],
) -> dict[str, Any]:
    """Book so many calls; CPU of making their payloads is measured apart and left out."""
    book, made_s, begun, cpu = load_book(store), 0.0, time.perf_counter(), sum(os.times()[:2])
    for start in range(0, count, batch):
        making = time.process_time()
        records = [
            Record(0, f"{start}-{place}", "settled", call.rid, encode(call))
            for place, call in zip(range(min(batch, count - start)), calls, strict=False)
        ]
        made_s += time.process_time() - making
        with store.write() as conn:
            done = booking.book(conn, booking.read(records, book, records_now_us(records)))
        assert done.events == len(records) and not done.failures, done.failures[:1]
        tell("what is booked", start, count)
    wall_s, cpu_s = time.perf_counter() - begun, sum(os.times()[:2]) - cpu
    return {
        "booked_s": round(wall_s, 1),
        "events_per_s": round(count / (wall_s - made_s)),
        "cpu_us_per_event": round((cpu_s - made_s) / count * 1e6, 1),
    }


def records_now_us(records: list[Record]) -> int:
    """The time at which a batch is booked; later than any of its calls."""
    return MONTH_US + int(records[-1].entry.partition("-")[0])


def month(count: int, tenants: int) -> Iterator[SettledCall]:
    """Calls of thirty days from 1970 on, evenly in time; a tenth of the tenants has most."""
    rng = random.Random(7)
    orgs = [f"org_{number:032x}" for number in range(tenants)]
    weights = [1 / (number + 10) for number in range(tenants)]
    choices = rng.choices(orgs, weights, k=100_003)
    for number in range(count):
        ended_us = number * MONTH_US // count + 3
        org = choices[number % len(choices)]
        opened = opened_call(
            f"req_{ended_us:015x}{number:017x}",
            org=org,
            project=f"proj_{org[4:]}",
            key=f"key_{org[4:]}_{number % 2}",
            admitted_us=ended_us - 2,
            month="197001",
        )
        output = 56 + number % 50
        tried = Attempt(
            pool=POOLS[number % 3],
            replica="replica-1",
            started_us=ended_us - 2,
            ended_us=ended_us,
            outcome="answered",
            input=44,
            output=output,
        )
        yield settled_call(
            opened, 44 + output, output=output, pool=tried.pool, attempts=[tried], ended_us=ended_us
        )


def rows_of(store: Store) -> dict[str, int]:
    tables = ("usage_event", "transfer", "account", "usage_hour", "usage_day")
    with store.read() as conn:
        return {
            table: int(conn.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())
            for table in tables
        }


def _settle_statistics(store: Store) -> None:
    """What PostgreSQL's own housekeeping would have done by the end of a month."""
    if store.engine.dialect.name == "postgresql":
        engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        with engine.connect() as conn:
            conn.exec_driver_sql("VACUUM ANALYZE")


def memory_mib() -> int:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
