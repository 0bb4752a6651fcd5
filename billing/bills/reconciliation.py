"""The use case: a provider's bill against booked attempts, and its variance as transfers.

A file is posted once, by its digest. Posted again it answers what it came to then. One variance is
one transfer between two accounts of the provider:

    the bill is higher   Dr variance:provider:P   Cr payable:provider:P
    the bill is lower    Dr payable:provider:P    Cr variance:provider:P
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.bills import store as rows
from billing.bills.bill import BillDifference, ClassDifference, differences, read_bill, span_of
from billing.db.engine import Store, take_turns
from billing.ledger import store as transfers
from billing.ledger.posting import transfer

LOCK = 0x51_75_1C_E7
VARIANCE = "variance"


class Reconciliation(NamedTuple):
    """What a bill came to. `posted_us` None: nothing was posted, somebody only looked."""

    provider: str
    sha256: str
    first_day: str
    last_day: str
    posted_us: int | None
    posted_by: str | None
    is_new: bool
    lines: Sequence[BillDifference]

    @property
    def billed_nanousd(self) -> int:
        return sum(line.billed_nanousd for line in self.lines)

    @property
    def booked_nanousd(self) -> int:
        return sum(line.booked_nanousd for line in self.lines)

    @property
    def variance_nanousd(self) -> int:
        return sum(line.variance_nanousd for line in self.lines)


def reconcile(
    store: Store,
    provider: str,
    text: str,
    *,
    models: Mapping[str, str],
    now_us: int,
    by: str,
    dry_run: bool = False,
) -> Reconciliation:
    """`models` are what the provider calls the models of its pools, by pool. Raises BadBill."""
    digest = sha256(text.encode()).hexdigest()
    bill = read_bill(text)
    span = span_of(bill)

    def compared(conn: Connection) -> list[BillDifference]:
        booked = rows.booked(conn, models, span)
        return differences(bill, booked, rows.posted(conn, provider, span))

    if dry_run:
        with store.read() as conn:
            before = posted_bill(conn, provider, digest)
            return before or Reconciliation(
                provider, digest, *span, None, None, False, compared(conn)
            )
    with store.write() as conn:
        take_turns(conn, LOCK)
        before = posted_bill(conn, provider, digest)
        if before is not None:
            return before
        made = Reconciliation(provider, digest, *span, now_us, by, True, compared(conn))
        rows.insert_bill(conn, _bill_row(made), [_line_row(made, line) for line in made.lines])
        transfers.post(conn, list(_transfers(made, now_us)))
        return made


def posted_bill(conn: Connection, provider: str, digest: str) -> Reconciliation | None:
    """A bill that was posted."""
    bill = rows.bill(conn, provider, digest)
    if bill is None:
        return None
    lines = [_difference(row) for row in rows.lines(conn, provider, digest)]
    return Reconciliation(
        *(provider, digest, bill["first_day"], bill["last_day"], bill["posted_us"]),
        *(bill["posted_by"], False, lines),
    )


def variance_account(provider: str) -> str:
    return f"{VARIANCE}:provider:{provider}"


def payable_account(provider: str) -> str:
    return f"payable:provider:{provider}"


def _transfers(made: Reconciliation, now_us: int) -> Sequence[dict[str, Any]]:
    variance, payable = variance_account(made.provider), payable_account(made.provider)
    moved = []
    for number, line in enumerate(made.lines):
        amount = line.variance_nanousd
        if amount:
            debit, credit = (variance, payable) if amount > 0 else (payable, variance)
            name = f"{VARIANCE}:{made.provider}:{made.sha256}:{number}"
            times = {"booked_us": now_us, "created_us": now_us}
            moved.append(transfer(name, VARIANCE, debit, credit, abs(amount), org="", **times))
    return moved


def _bill_row(made: Reconciliation) -> dict[str, Any]:
    return {
        "provider": made.provider,
        "sha256": made.sha256,
        "first_day": made.first_day,
        "last_day": made.last_day,
        "billed_nanousd": made.billed_nanousd,
        "booked_nanousd": made.booked_nanousd,
        "variance_nanousd": made.variance_nanousd,
        "posted_us": made.posted_us,
        "posted_by": made.posted_by,
    }


def _line_row(made: Reconciliation, line: BillDifference) -> dict[str, Any]:
    return {
        "provider": made.provider,
        "sha256": made.sha256,
        "day": line.day,
        "model": line.model,
        "billed_nanousd": line.billed_nanousd,
        "booked_nanousd": line.booked_nanousd,
        "posted_nanousd": line.posted_nanousd,
        "variance_nanousd": line.variance_nanousd,
        "classes": [each._asdict() for each in line.classes],
    }


def _difference(row: Mapping[Any, Any]) -> BillDifference:
    classes = tuple(ClassDifference(**each) for each in row["classes"])
    return BillDifference(
        *(row["day"], row["model"], row["billed_nanousd"]),
        *(row["booked_nanousd"], row["posted_nanousd"], classes),
    )
