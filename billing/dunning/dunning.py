"""Dunning as it is carried out: each step with its event in one transaction.

A kill leaves a step taken and told, or neither. A payment and a step of one invoice take turns, so
none is taken of an invoice that is paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from sqlalchemy import Connection

from billing.db.engine import Store, take_turns
from billing.dunning import store as rows
from billing.dunning.steps import DunningStep, StepName, Unpaid, next_step
from billing.dunning.suspension import suspend
from billing.invoices import store as invoices
from billing.invoices.events import tell_of_invoice
from billing.invoices.store import RUN_LOCK
from billing.money import NANOUSD_PER_CENT, usd
from billing.outbox.event import SECOND_US, EventType

Row = dict[str, Any]


def take_steps(store: Store, steps: Sequence[DunningStep], now_us: int) -> int:
    """Take what is due of every invoice today, one step of each at most. How many."""
    with store.read() as conn:
        overdue = invoices.overdue(conn, now_us)
        taken = rows.taken(conn, [invoice["invoice_id"] for invoice in overdue])
    due = [
        invoice["invoice_id"]
        for invoice in overdue
        if _next(invoice, taken.get(invoice["invoice_id"], {}), steps, now_us)
    ]
    return sum(_take(store, invoice_id, steps, now_us) for invoice_id in due)


def _take(store: Store, invoice_id: str, steps: Sequence[DunningStep], now_us: int) -> bool:
    """False where it was paid, or the step taken, in between."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        for invoice in invoices.overdue(conn, now_us, invoice_id=invoice_id):
            taken = rows.taken(conn, [invoice_id]).get(invoice_id, {})
            step = _next(invoice, taken, steps, now_us)
            if step is not None:
                left_cents = invoices.left_cents(invoice)
                rows.insert_step(conn, invoice_id, step.name, left_cents, now_us)
                _tell(conn, invoice, step.name, now_us)
                if step.name is StepName.SUSPENSION:
                    suspend(conn, invoice["org"], now_us)
                return True
    return False


def _next(
    invoice: Row, taken: Mapping[StepName, int], steps: Sequence[DunningStep], now_us: int
) -> DunningStep | None:
    return next_step(unpaid_of(invoice, taken), _day(now_us), steps)


def unpaid_of(invoice: Row, taken: Mapping[StepName, int]) -> Unpaid:
    """What steps are decided by, of an invoice that has a day by which it is due."""
    days = {name: _day(at_us) for name, at_us in taken.items()}
    return Unpaid(_day(invoice["due_us"]), invoices.left_cents(invoice), days)


def _tell(conn: Connection, invoice: Row, name: StepName, now_us: int) -> None:
    left = usd(invoices.left_cents(invoice) * NANOUSD_PER_CENT)
    more = {"step": name.value, "due_usd": left}
    kind = EventType.INVOICE_OVERDUE
    tell_of_invoice(conn, kind, invoice, now_us, name.value, more=more)


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // SECOND_US, UTC).date()
