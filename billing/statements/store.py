"""What a statement is made of: documents and payments by the instants at which they were booked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Subquery, func, literal, select, union_all

from billing.db.engine import Store
from billing.invoices.store import INVOICE, NOTE, VOID, WRITE_OFF, number_of
from billing.payments.payment import PartKind
from billing.payments.store import IS_CREDIT, LEFT_AGAIN, PART, PAYMENT
from billing.statements.statement import Movement, Statement, statement_of

ENTRIES_MAX = 10_000
LEFT = {
    kind.value: LEFT_AGAIN.get(kind, kind.value)
    for kind in PartKind
    if kind is not PartKind.INVOICE
}
"""What a part of a payment is called that no invoice took."""


class TooManyEntries(ValueError):
    """The span has more entries than one statement shows."""


def statement(store: Store, org: str, from_us: int, to_us: int) -> Statement:
    """Raises TooManyEntries."""
    with store.read() as conn:
        moved = _movements(org).subquery("moved")
        before = select(func.sum(moved.c.cents)).where(moved.c.at_us < from_us)
        opening = int(conn.execute(before).scalar_one() or 0)
        within = moved.c.at_us >= from_us, moved.c.at_us < to_us
        order = moved.c.at_us, moved.c.kind, moved.c.id, moved.c.place
        rows = select(moved).where(*within).order_by(*order).limit(ENTRIES_MAX + 1)
        movements = [_movement(row) for row in conn.execute(rows)]
    if len(movements) > ENTRIES_MAX:
        raise TooManyEntries(f"it has more than {ENTRIES_MAX:,} entries")
    return statement_of(org, from_us, to_us, opening, movements)


def cents_by_org(conn: Connection) -> Iterator[tuple[str, int]]:
    """What each organization owes by its documents and payments."""
    moved: Subquery = _movements(None).subquery("moved")
    for org, cents in conn.execute(
        select(moved.c.org, func.sum(moved.c.cents)).group_by(moved.c.org)
    ):
        yield org, int(cents)


def _movement(row: Any) -> Movement:
    number = number_of({"series": row.name, "number": row.number}) or row.name
    return Movement(row.at_us, row.kind, row.id, number, int(row.cents))


def _movements(org: str | None) -> CompoundSelect[Any]:
    """Of one organization, or of all."""
    payable = INVOICE.c.total_cents + INVOICE.c.tax_cents
    numbered = INVOICE.c.org, INVOICE.c.invoice_id, INVOICE.c.series, INVOICE.c.number
    of_void = VOID.join(INVOICE, INVOICE.c.invoice_id == VOID.c.invoice_id)
    of_write_off = WRITE_OFF.join(INVOICE, INVOICE.c.invoice_id == WRITE_OFF.c.invoice_id)
    of_part = PART.join(PAYMENT, PAYMENT.c.payment_id == PART.c.payment_id)
    whole = literal(0)
    note = NOTE.c.net_cents + NOTE.c.tax_cents
    of_note = NOTE.c.org, NOTE.c.note_id, NOTE.c.series, NOTE.c.number
    came = PAYMENT.c.org, PAYMENT.c.payment_id, PAYMENT.c.external_id, whole
    name = func.coalesce(func.nullif(PART.c.external_id, ""), PAYMENT.c.external_id)
    left = PAYMENT.c.org, PAYMENT.c.payment_id, name, whole
    selects = (
        _select(INVOICE.c.computed_us, "invoice", numbered, payable).where(
            INVOICE.c.status == "finalised"
        ),
        _select(VOID.c.voided_us, "invoice_void", numbered, -payable).select_from(of_void),
        _select(
            WRITE_OFF.c.written_us, "write_off", numbered, -WRITE_OFF.c.amount_cents
        ).select_from(of_write_off),
        _select(NOTE.c.created_us, "credit_note", of_note, -note),
        _select(PAYMENT.c.created_us, "payment", came, -PAYMENT.c.amount_cents).where(~IS_CREDIT),
        *(
            _select(PART.c.created_us, word, left, PART.c.amount_cents, PART.c.n)
            .select_from(of_part)
            .where(PART.c.kind == kind)
            for kind, word in LEFT.items()
        ),
    )
    if org is None:
        return union_all(*selects)
    return union_all(*(each.where(each.selected_columns.org == org) for each in selects))


def _select(at: Any, kind: str, named: tuple[Any, ...], cents: Any, place: Any = None) -> Any:
    owner, document, name, number = named
    return select(
        *(at.label("at_us"), literal(kind).label("kind"), owner.label("org")),
        *(document.label("id"), name.label("name"), number.label("number")),
        *(cents.label("cents"), (literal(0) if place is None else place).label("place")),
    )
