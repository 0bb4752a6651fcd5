"""What an invoice run costs: its time and memory, what it adds, and how long the ledger waits.

    python -m bench.invoices [--calls 10000000] [--booked 100000] [--tenants 1000] [--rounds 3]
        [--postgres] [--data DIR] [--verify]

Books the first `--booked` calls of a month as `bench.ledger_month` does, without attempts, and has
`bench.multiplied` copy them by SQL to `--calls`: the ledger, its indexes and its sums are those of
so many calls, and no writer has to book them. Another process does this, so memory is that of runs.

Then a job makes the drafts of all organizations as the ledger process does, with its rests, and
again with nothing new, `--rounds` times: in each round every organization has a new call. A writer
is timed in turns alone and beside runs that never stop, in one process with them, as it is in
production. Last the month is finalised, and a line is traced to its first 100 transfers. CPU is
that of this process and of what PostgreSQL does for it. Prints medians as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import psutil

from bench.ledger_month import MONTH_US, booked, memory_mib, month
from bench.ledger_writer import bytes_of, durable_postgres, priced_store
from bench.multiplied import multiply
from billing.charges.trace import line_transfers
from billing.db.engine import Store, open_store
from billing.invoices.months import list_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.run_keeper import Pace
from billing.invoices.runs import RunProgress, RunState, advance, one, start
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import silent
from billing.limits.keys import SHARDS
from billing.prices.versions import load_book
from billing.tuning import collect_less, switch_often
from billing.types import SettledCall, encode
from billing.verify import verify_all
from billing.writer import marks

MONTH = "1970-01"
NOW_US = 3 * MONTH_US
BATCH = 20
TURNS, COMMITS = 12, 50
PAUSE_S = 0.01
Spent = tuple[float, float]
"""Seconds of the clock and of processors."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--booked", type=int, default=100_000, help="of them, not copied")
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgres", action="store_true", help="in PostgreSQL, not SQLite")
    parser.add_argument("--data", help="folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--verify", action="store_true", help="check every law at the end")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="sli-", dir=arguments.data))
        stack.callback(shutil.rmtree, folder)
        url = f"sqlite:///{folder / 'ledger.db'}"
        if arguments.postgres:
            url = stack.enter_context(durable_postgres(folder)).url()
        of_ledger = (url, arguments.calls, arguments.booked, arguments.tenants)
        process = multiprocessing.get_context("spawn").Process(target=prepare, args=of_ledger)
        process.start()
        process.join()
        assert process.exitcode == 0
        figures = measure(url, arguments.calls, arguments.tenants, arguments.rounds)
        print(json.dumps({"database": url.partition(":")[0], **figures}))
        if arguments.verify:
            verified(url)


def prepare(url: str, calls: int, count: int, tenants: int) -> None:
    """A month of so many calls, of which `count` are booked and the others are copies."""
    assert calls % count == 0, "whole copies only"
    collect_less()
    store = priced_store(url)
    untried = (msgspec.structs.replace(each, attempts=[]) for each in month(count, tenants))
    booked(store, untried, count, 2000, silent)
    multiply(store, calls // count, silent)
    store.close()


def measure(url: str, calls: int, tenants: int, rounds: int) -> dict[str, Any]:
    collect_less()
    switch_often()
    load = os.getloadavg()[0]
    store = open_store(url)
    job = Job(store)
    size = bytes_of(store)
    first = spent(store, job.run)
    added = bytes_of(store) - size
    drafts, agains = [], []
    for number in range(rounds):
        agains.append(spent(store, job.run))
        book_more(store, one_each(tenants), f"more_{number}")
        drafts.append(spent(store, job.run))
    alone, beside = commits_ms(store, job, tenants)
    with store.write() as conn:
        marks.caught_up(conn, SHARDS, NOW_US)
    final = spent(store, job.run)
    again_final = spent(store, job.run)
    (invoice,) = list_invoices(store, now_us=NOW_US, org=org_name(0))
    traces = [spent(store, lambda: trace(store, invoice)) for _ in range(max(rounds, 5))]
    store.close()
    return {
        "calls": calls,
        "tenants": tenants,
        "first_run_s": first,
        "run_s": medians(drafts),
        "again_s": medians(agains),
        "final_s": final,
        "again_final_s": again_final,
        "bytes_added_per_call": round(added / calls, 2),
        "commit_p50_p99_ms_alone": alone,
        "commit_p50_p99_ms_beside_runs": beside,
        "first_100_of_a_line_s": medians(traces),
        "lines": len(invoice.lines),
        "memory_mib": memory_mib(),
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


class Job:
    """Runs of the month, each step later than the one before, so that each run has its own name."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._instants = itertools.count(NOW_US)

    def run(self) -> None:
        """One pass of the run that waits, or of a new one, as the ledger process makes it."""
        pace = Pace(time.monotonic, time.sleep)
        asked = self.start()
        while True:
            self.step(pace.rest)
            if one(self._store, asked.run_id).state is not RunState.RUNNING:
                return

    def start(self) -> RunProgress:
        return start(self._store, MONTH, now_us=next(self._instants))

    def step(self, rest: Callable[[], None]) -> None:
        now_us = next(self._instants)
        advance(self._store, now_us=now_us, series="B", retry_after_us=0, rest=rest)


def trace(store: Store, invoice: InvoiceResult) -> None:
    assert line_transfers(store, invoice.invoice["invoice_id"], 1, limit=100)


def commits_ms(store: Store, job: Job, tenants: int) -> tuple[list[float], list[float]]:
    """p50 and p99 of a writer's commits without runs, and beside runs in another thread."""
    may_run, has_ended = threading.Event(), threading.Event()
    thread = threading.Thread(target=_run_always, args=(job, may_run, has_ended))
    thread.start()
    taken: tuple[list[float], list[float]] = ([], [])
    for turn in range(2 * TURNS):
        has_runs = turn % 2
        (may_run.set if has_runs else may_run.clear)()
        time.sleep(10 * PAUSE_S)
        for number in range(COMMITS):
            calls = list(month(BATCH, tenants))
            taken[has_runs].append(book_more(store, calls, f"writer_{turn}_{number}") * 1000)
            time.sleep(PAUSE_S)
    has_ended.set()
    may_run.set()
    thread.join()
    alone, beside = (
        [round(statistics.quantiles(each, n=100)[place], 1) for place in (49, 98)] for each in taken
    )
    return alone, beside


def _run_always(job: Job, may_run: threading.Event, has_ended: threading.Event) -> None:
    pace = Pace(time.monotonic, time.sleep)

    def rest() -> None:
        pace.rest()
        may_run.wait()
        pace.begin()

    job.start()
    while not has_ended.is_set():
        may_run.wait()
        job.step(rest)


def one_each(tenants: int) -> list[SettledCall]:
    """A call of every organization."""
    calls = month(tenants, tenants)
    return [
        msgspec.structs.replace(call, org=org_name(number), project=f"proj_{number:032x}")
        for number, call in enumerate(calls)
    ]


def org_name(number: int) -> str:
    return f"org_{number:032x}"


def book_more(store: Store, calls: list[SettledCall], name: str) -> float:
    """Book some more calls of the month in one transaction; the seconds it took."""
    records = []
    for place, call in enumerate(calls):
        rid = f"{name}_{place}"
        settled = msgspec.structs.replace(call, rid=rid)
        records.append(Record(0, f"{NOW_US}-{place}", "settled", rid, encode(settled)))
    batch = booking.read(records, load_book(store), NOW_US - 1)
    begun = time.perf_counter()
    with store.write() as conn:
        done = booking.book(conn, batch)
    assert done.events == len(calls), done.failures[:1]
    return time.perf_counter() - begun


def verified(url: str) -> None:
    store = open_store(url)
    report = asyncio.run(verify_all(store, now_us=NOW_US))
    store.close()
    assert report.ok, report.as_text()


def spent(store: Store, step: Callable[[], Any]) -> Spent:
    begun, cpu = time.perf_counter(), cpu_s(store)
    step()
    return round(time.perf_counter() - begun, 3), round(cpu_s(store) - cpu, 3)


def cpu_s(store: Store) -> float:
    """Of this process, and of the processes of PostgreSQL that are connected with it."""
    own = sum(os.times()[:2])
    if store.engine.dialect.name == "sqlite":
        return own
    with store.read() as conn:
        asked = "SELECT pid FROM pg_stat_activity WHERE usename = current_user"
        pids = list(conn.exec_driver_sql(asked).scalars())
    return own + sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def medians(rounds: list[Spent]) -> Spent:
    wall, cpu = zip(*rounds, strict=True)
    return statistics.median(wall), statistics.median(cpu)


if __name__ == "__main__":
    main()
