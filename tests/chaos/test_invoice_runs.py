"""An invoice run that is killed at any statement and run again: every charge is billed once."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from billing.db.engine import open_store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.limits.keys import SHARDS
from billing.periods import period_at
from billing.prices.versions import load_book
from billing.types import UsageSource, encode
from billing.writer import marks
from tests.billing.calls import opened_call, settled_call
from tests.chaos import plan
from tests.chaos.auditor import Auditor, Books, Client, charge
from tests.chaos.databases import Database
from tests.chaos.plan import planned
from tests.stack_process import environment

ROOT = Path(__file__).parents[2]
CALLS = 120
ADMITTED_US = 1_790_000_000_000_000
NOW_US = ADMITTED_US + 90 * 86_400 * 1_000_000
MONTH = period_at(ADMITTED_US).name
KILLS = 6
RUN_WITHIN_S = 120.0


async def test_invoice_run_killed_at_any_statement_bills_every_charge_once(
    database: Database, seed: int
) -> None:
    rng = Random(seed)
    print(f"seed {seed}")
    await asyncio.to_thread(book_calls, database.url, seed)
    auditor = Auditor(database.url, Client(seed))
    before = auditor.read()
    killed = [await run(database.url, die) for die in sorted(rng.sample(range(2, 60), KILLS))]
    assert [status for status, _ in killed].count(-signal.SIGKILL) >= KILLS // 2
    runs = await asyncio.gather(run(database.url), run(database.url))
    assert any(status == 0 for status, _ in runs), "of two at once one goes through"
    assert (await run(database.url))[0] == 0
    books = auditor.read()
    assert_billed_once(auditor, before, books)
    assert (await run(database.url))[0] == 0
    assert auditor.read().digest == books.digest, "another run changes nothing"


def assert_billed_once(auditor: Auditor, before: Books, books: Books) -> None:
    invoices, lines, cuts = (
        auditor.rows(table) for table in ("invoice", "invoice_line", "invoice_cut")
    )
    assert Counter(row["org"] for row in invoices) == Counter(plan.ORGS)
    assert {row["status"] for row in invoices} == {"finalised"}
    assert sorted(int(row["number"]) for row in invoices) == list(range(1, len(invoices) + 1))
    charges = {row["transfer_id"]: row for row in before.transfers if row["rid"]}
    billed = Counter[str]()
    for invoice in invoices:
        mine = [
            row
            for row in charges.values()
            for cut in cuts
            if cut["invoice_id"] == invoice["invoice_id"] and _is_in(cut, invoice, row)
        ]
        billed.update(str(row["transfer_id"]) for row in mine)
        net = sum(_signed(row) for row in mine)
        of_lines = Counter[str]()
        for line in lines:
            if line["invoice_id"] == invoice["invoice_id"]:
                of_lines[line["kind"] == "rounding"] += int(line["amount_nanousd"])
        assert of_lines[False] == net == int(invoice["subtotal_nanousd"])
        assert sum(of_lines.values()) == int(invoice["total_cents"]) * 10_000_000
        debits, credits = books.accounts[f"org:{invoice['org']}:receivable"]
        assert debits - credits == sum(of_lines.values())
        debits, credits = books.accounts[f"org:{invoice['org']}:unbilled"]
        assert debits == credits
    assert billed == Counter(charges.keys())


def _is_in(cut: dict[str, object], invoice: dict[str, object], row: dict[str, object]) -> bool:
    month = period_at(int(str(cut["service_start_us"])))
    booked_us, created_us = int(str(row["booked_us"])), int(str(row["created_us"]))
    is_of_month = month.start_us <= booked_us < month.end_us
    is_in_span = int(str(cut["after_us"])) < created_us <= int(str(cut["upto_us"]))
    return row["org"] == invoice["org"] and is_of_month and is_in_span


def _signed(row: dict[str, object]) -> int:
    amount = int(str(row["amount_nanousd"]))
    return amount if row["credit_account"] == "revenue:usage" else -amount


def book_calls(url: str, seed: int) -> None:
    """A month of calls, some estimated first and corrected later."""
    records: list[Record] = []
    for number in range(CALLS):
        wanted = planned(seed, f"req_{number}")
        opened = opened_call(
            wanted.rid,
            org=wanted.org,
            project=f"proj_{wanted.org}",
            key=f"key_{wanted.org}",
            model=wanted.model,
            tier=wanted.tier,
            price_version=plan.PRICE_VERSION,
            admitted_us=ADMITTED_US + number,
        )
        used = (wanted.prompt - wanted.cached, wanted.cached, wanted.output)
        exact = settled_call(
            opened,
            charge(wanted.model, used),
            input=used[0],
            cached_input=used[1],
            output=used[2],
        )
        if number % 5 == 0:
            less = (used[0], used[1], wanted.frames[0])
            estimate = msgspec.structs.replace(
                exact,
                source=UsageSource.ESTIMATED,
                output=less[2],
                amount_nanousd=charge(wanted.model, less),
            )
            records.append(_record(records, estimate.rid, encode(estimate)))
        records.append(_record(records, exact.rid, encode(exact)))
    store = open_store(url)
    with store.write() as conn:
        booked = booking.book(conn, booking.read(records, load_book(store), NOW_US))
        marks.caught_up(conn, SHARDS, NOW_US)
    store.close()
    assert not booked.failures


def _record(before: Sequence[Record], rid: str, payload: bytes) -> Record:
    return Record(0, f"{len(before) + 1}-0", "settled", rid, payload)


async def run(url: str, die: int = 0) -> tuple[int, bytes]:
    """Its exit status, and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos.invoice_process", url, MONTH, str(NOW_US), str(die)),
        cwd=ROOT,
        env=environment() | {"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(RUN_WITHIN_S):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said
