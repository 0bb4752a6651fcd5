"""What an invoice run costs: its time and memory, what it adds, and how long the ledger waits.

    python -m bench.invoices [--calls 100000] [--tenants 1] [--rounds 5] [--postgres] [--data DIR]

Books the calls of a month as `bench.ledger_month` does. Then it makes the invoices as drafts, and
makes them again with nothing new, `--rounds` times: each round has new charges, so that a draft is
composed anew. Commits of a writer in a process of its own are timed alone, and beside runs that
never stop. Last the month is finalised, a line is traced to its first 100 transfers, and every law
is checked. Prints medians as JSON; memory is the highest of this process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.ledger_month import MONTH_US, booked, memory_mib, month
from bench.ledger_writer import bytes_of, durable_postgres, priced_store
from billing.charges.trace import line_transfers
from billing.db.engine import Store, open_store
from billing.invoices.months import InvoiceResult, run_invoices
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.ledger.report import silent
from billing.limits.keys import SHARDS
from billing.prices.versions import load_book
from billing.tuning import collect_less
from billing.types import encode
from billing.verify import verify_all
from billing.writer import marks

MONTH = "1970-01"
NOW_US = 3 * MONTH_US
BATCH = 20
COMMITS = 300
PAUSE_S = 0.01


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--tenants", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgres", action="store_true", help="in PostgreSQL, not SQLite")
    parser.add_argument("--data", help="folder on the disk to measure (default: a temporary one)")
    arguments = parser.parse_args()
    collect_less()
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="sli-", dir=arguments.data))
        stack.callback(shutil.rmtree, folder)
        url = f"sqlite:///{folder / 'ledger.db'}"
        if arguments.postgres:
            url = stack.enter_context(durable_postgres(folder)).url()
        figures = measure(url, arguments.calls, arguments.tenants, arguments.rounds)
    print(json.dumps({"database": url.partition(":")[0], **figures}))


def measure(url: str, calls: int, tenants: int, rounds: int) -> dict[str, Any]:
    store = priced_store(url)
    load = os.getloadavg()[0]
    figures = booked(store, calls, tenants, 2000, silent)
    size = bytes_of(store)
    drafts, agains = [], []
    for number in range(rounds):
        drafts.append(_timed(lambda: run(store, NOW_US)))
        agains.append(_timed(lambda: run(store, NOW_US)))
        book_more(store, tenants, f"more_{number}", 1)
    figures["bytes_added_per_call"] = round((bytes_of(store) - size) / calls, 2)
    alone = commits_ms(url, tenants, "alone", lambda: time.sleep(PAUSE_S))
    beside = commits_ms(url, tenants, "beside", lambda: run(store, NOW_US))
    with store.write() as conn:
        marks.caught_up(conn, SHARDS, NOW_US)
    final_s = _timed(lambda: run(store, NOW_US))
    (first, *_) = run(store, NOW_US)
    traces = [_timed(lambda: trace(store, first)) for _ in range(rounds)]
    memory = memory_mib()
    report = asyncio.run(verify_all(store, now_us=NOW_US))
    assert report.ok, report.as_text()
    store.close()
    return figures | {
        "run_s": _median(drafts),
        "again_s": _median(agains),
        "final_s": round(final_s, 4),
        "commit_p50_p99_ms_alone": alone,
        "commit_p50_p99_ms_beside_runs": beside,
        "first_100_of_a_line_ms": round(statistics.median(traces) * 1000, 1),
        "lines": len(first.lines),
        "memory_mib": memory,
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
    }


def run(store: Store, now_us: int) -> list[InvoiceResult]:
    return run_invoices(store, MONTH, now_us=now_us, series="B")


def trace(store: Store, invoice: InvoiceResult) -> None:
    assert line_transfers(store, invoice.invoice["invoice_id"], 1, limit=100)


def commits_ms(url: str, tenants: int, name: str, meanwhile: Callable[[], Any]) -> list[float]:
    """p50 and p99 of the commits of a writer in another process, while something else goes on."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_write, args=(url, tenants, name, theirs)
    )
    process.start()
    while not ours.poll():
        meanwhile()
    taken: list[float] = sorted(ours.recv())
    process.join()
    return [round(taken[len(taken) // 2], 2), round(taken[len(taken) * 99 // 100], 2)]


def _write(url: str, tenants: int, name: str, report: Any) -> None:
    store = open_store(url)
    taken = []
    for number in range(COMMITS):
        taken.append(book_more(store, tenants, f"{name}_{number}", BATCH) * 1000)
        time.sleep(PAUSE_S)
    store.close()
    report.send(taken)


def book_more(store: Store, tenants: int, name: str, count: int) -> float:
    """Book some more calls of the month in one transaction; the seconds it took."""
    records = []
    for place, call in zip(range(count), month(count, tenants), strict=False):
        rid = f"{name}_{place}"
        settled = type(call)(**{**_fields(call), "rid": rid})
        records.append(Record(0, f"{NOW_US}-{place}", "settled", rid, encode(settled)))
    batch = booking.read(records, load_book(store), NOW_US - 1)
    begun = time.perf_counter()
    with store.write() as conn:
        done = booking.book(conn, batch)
    assert done.events == count, done.failures[:1]
    return time.perf_counter() - begun


def _fields(call: Any) -> dict[str, Any]:
    return {name: getattr(call, name) for name in call.__struct_fields__}


def _timed(step: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    step()
    return time.perf_counter() - begun


def _median(seconds: list[float]) -> float:
    return round(statistics.median(seconds), 4)


if __name__ == "__main__":
    main()
