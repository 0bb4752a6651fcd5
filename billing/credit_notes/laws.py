"""Laws of credit notes: they add up, the ledger has them, and none is above what is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, String, cast, func, select

from billing.cents import taxes_of
from billing.credit_notes.store import LINE, NOTE, TAX, TAX_SHARE
from billing.invoices.store import INVOICE
from billing.invoices.store import TAX as INVOICE_TAX
from billing.invoices.store import TAX_SHARE as INVOICE_TAX_SHARE
from billing.ledger.report import Check, judged
from billing.ledger.store import TRANSFER
from billing.money import NANOUSD_PER_CENT


def notes_add_up(conn: Connection) -> Check:
    notes = _notes(conn)
    breaks = [*(problem for note in notes if (problem := _wrong(note))), *_above(conn)]
    return judged(
        "I5 credit_notes",
        "a credit note is its lines and taxes, the ledger has it, and none is above what is left",
        breaks,
        len(notes),
    )


def _notes(conn: Connection) -> list[dict[str, Any]]:
    """Each note with the sums of its lines, of its taxes and of its transfers."""
    of_tax = TAX.c.note_id + ":tax:" + cast(TAX.c.tax_place, String)
    place = cast(TAX_SHARE.c.tax_place, String) + ":" + cast(TAX_SHARE.c.share, String)
    of_share = TAX_SHARE.c.note_id + ":tax:" + place
    sums = {
        "lines": select(func.sum(LINE.c.amount_cents)).where(LINE.c.note_id == NOTE.c.note_id),
        "bases": select(func.sum(TAX.c.base_cents)).where(TAX.c.note_id == NOTE.c.note_id),
        "taxes": select(func.sum(TAX.c.tax_cents)).where(TAX.c.note_id == NOTE.c.note_id),
        "booked_net": select(func.sum(TRANSFER.c.amount_nanousd)).where(
            TRANSFER.c.transfer_id == NOTE.c.note_id + ":net"
        ),
        "booked_tax": select(func.sum(TRANSFER.c.amount_nanousd))
        .select_from(TAX.join(TRANSFER, TRANSFER.c.transfer_id == of_tax))
        .where(TAX.c.note_id == NOTE.c.note_id),
        "booked_shares": select(func.sum(TRANSFER.c.amount_nanousd))
        .select_from(TAX_SHARE.join(TRANSFER, TRANSFER.c.transfer_id == of_share))
        .where(TAX_SHARE.c.note_id == NOTE.c.note_id),
    }
    columns = [
        func.coalesce(each.correlate(NOTE).scalar_subquery(), 0).label(name)
        for name, each in sums.items()
    ]
    return [dict(row) for row in conn.execute(select(NOTE, *columns)).mappings()]


def _wrong(note: dict[str, Any]) -> str | None:
    net, tax = note["net_cents"], note["tax_cents"]
    if (int(note["lines"]), int(note["bases"]), int(note["taxes"])) != (net, net, tax):
        return (
            f"{note['note_id']}: lines {note['lines']}, bases {note['bases']}, taxes "
            f"{note['taxes']}, net {net}, tax {tax}"
        )
    booked = int(note["booked_net"]), int(note["booked_tax"]) + int(note["booked_shares"])
    if booked != (net * NANOUSD_PER_CENT, tax * NANOUSD_PER_CENT):
        return f"{note['note_id']}: booked {booked}, net {net}, tax {tax}"
    return None


def _above(conn: Connection) -> Iterator[str]:
    """Invoices of which more was credited than they ask for, and taxes that are off their rate."""
    total = func.sum(NOTE.c.net_cents + NOTE.c.tax_cents)
    payable = INVOICE.c.total_cents + INVOICE.c.tax_cents
    statement = (
        select(NOTE.c.invoice_id)
        .join(INVOICE, INVOICE.c.invoice_id == NOTE.c.invoice_id)
        .group_by(NOTE.c.invoice_id, payable)
        .having(total > payable)
    )
    for invoice_id in conn.execute(statement).scalars():
        yield f"{invoice_id}: credited above its total"
    of_note = (INVOICE_TAX.c.invoice_id == NOTE.c.invoice_id) & (
        INVOICE_TAX.c.place == TAX.c.tax_place
    )
    shared: dict[tuple[str, int], list[int]] = {}
    for each in conn.execute(select(INVOICE_TAX_SHARE)):
        shared.setdefault((each.invoice_id, each.place), []).append(each.rate_ppm)
    taken = (
        select(
            *(NOTE.c.invoice_id, TAX.c.tax_place, INVOICE_TAX.c.rate_ppm),
            func.sum(TAX.c.base_cents),
            func.sum(TAX.c.tax_cents),
        )
        .select_from(TAX.join(NOTE, NOTE.c.note_id == TAX.c.note_id).join(INVOICE_TAX, of_note))
        .group_by(NOTE.c.invoice_id, TAX.c.tax_place, INVOICE_TAX.c.rate_ppm)
    )
    for invoice_id, place, rate_ppm, base, tax in conn.execute(taken):
        rates = shared.get((invoice_id, place), [rate_ppm])
        if abs(int(tax) - sum(taxes_of(int(base), rates))) > len(rates):
            yield f"{invoice_id} tax {place}: {tax} taken back of a base of {base}"
