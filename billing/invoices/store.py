"""Statements on invoices. A draft is deleted and written anew; a finalised one is frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BigInteger,
    Connection,
    Select,
    cast,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from billing.charges.sums import CELL, SUMMED, Cell, Sums
from billing.credit_notes.tables import CreditNote
from billing.currencies.conversion import Conversion
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, add_one, insert_rows
from billing.invoices.cuts import Cut
from billing.invoices.invoicing import TERM_KINDS, LineKind
from billing.invoices.tables import (
    Invoice,
    InvoiceCounter,
    InvoiceCut,
    InvoiceLine,
    InvoiceParties,
    InvoiceReview,
    InvoiceTax,
    InvoiceTaxShare,
    InvoiceVoid,
    InvoiceWriteOff,
)
from billing.parties.party import BillingProfile, Seller
from billing.parties.store import BilledAs
from billing.payments.store import paid_of
from billing.taxes import vat_store
from billing.taxes.tax_rule import TaxRule
from billing.taxes.taxation import TaxAmount, Taxation, TaxShare, Treatment
from billing.usage.rollup import DAY_US

INVOICE = table_of(Invoice)
LINE = table_of(InvoiceLine)
CUT = table_of(InvoiceCut)
COUNTER = table_of(InvoiceCounter)
PARTIES = table_of(InvoiceParties)
TAX = table_of(InvoiceTax)
TAX_SHARE = table_of(InvoiceTaxShare)
VOID = table_of(InvoiceVoid)
WRITE_OFF = table_of(InvoiceWriteOff)
REVIEW = table_of(InvoiceReview)
NOTE = table_of(CreditNote)
MONTH, ONE_OFF = "month", "one_off"
"""Kinds of invoices."""
RUN_LOCK = 0x51_75_1C_E2
"""Of whoever changes invoices or what they are paid."""
IS_VOID = select(VOID.c.invoice_id).where(VOID.c.invoice_id == INVOICE.c.invoice_id).exists()
NUMBER = re.compile(r"[0-9]{6,18}")
CHARGED = tuple(kind.value for kind in (LineKind.USAGE, LineKind.ADJUSTMENT, LineKind.CREDIT))
"""Lines that have a cell of the charges."""
OF_TERMS = tuple(kind.value for kind in TERM_KINDS)


class UnknownInvoice(LookupError):
    """There is no invoice of this id."""


def finalised_periods(conn: Connection, org: str) -> set[str]:
    statement = select(INVOICE.c.period).where(
        *(INVOICE.c.org == org, INVOICE.c.kind == MONTH),
        *(INVOICE.c.status == "finalised", ~IS_VOID),
    )
    return set(conn.execute(statement).scalars())


def find(
    conn: Connection,
    org: str | None,
    period: str | None,
    *,
    after: tuple[str, str, int] | None = None,
    limit: int | None = None,
) -> list[dict[str, Any]]:
    """By month, organization and revision, each with what STANDING has."""
    order = INVOICE.c.period, INVOICE.c.org, INVOICE.c.revision
    statement = _with_voids().order_by(*order).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(*order) > after)
    if org is not None:
        statement = statement.where(INVOICE.c.org == org)
    if period is not None:
        statement = statement.where(INVOICE.c.period == period)
    return [dict(row) for row in conn.execute(statement).mappings()]


def by_id(conn: Connection, invoice_id: str) -> dict[str, Any] | None:
    row = conn.execute(_with_voids().where(INVOICE.c.invoice_id == invoice_id)).mappings().first()
    return dict(row) if row else None


def overdue(
    conn: Connection, now_us: int, *, org: str | None = None, invoice_id: str | None = None
) -> list[dict[str, Any]]:
    """Issued invoices whose day is past and of which something is left, the oldest first."""
    issued = _collectible().where(PARTIES.c.due_us < now_us)
    if org is not None:
        issued = issued.where(INVOICE.c.org == org)
    if invoice_id is not None:
        issued = issued.where(INVOICE.c.invoice_id == invoice_id)
    return _unpaid(conn, issued, "due_us")


def unpaid(conn: Connection, org: str) -> list[dict[str, Any]]:
    """Issued invoices of which something is left, the oldest first."""
    return _unpaid(conn, _collectible().where(INVOICE.c.org == org), "computed_us")


def _collectible() -> Select[Any]:
    """Issued, and neither void nor written off."""
    return _with_voids().where(
        *(INVOICE.c.status == "finalised", VOID.c.voided_us.is_(None)),
        WRITE_OFF.c.amount_cents.is_(None),
    )


def _unpaid(conn: Connection, issued: Select[Any], order: str) -> list[dict[str, Any]]:
    each = issued.subquery("issued").c
    left = each.total_cents + each.tax_cents - each.paid_cents - each.noted_cents
    statement = select(*each).where(left > 0).order_by(each[order], each.invoice_id)
    return [dict(row) for row in conn.execute(statement).mappings()]


def last_before(conn: Connection, org: str, period: str) -> dict[str, Any] | None:
    """The final invoice of the last month before a month that has one."""
    statement = (
        select(INVOICE.c.period, INVOICE.c.total_cents)
        .where(INVOICE.c.org == org, INVOICE.c.period < period, INVOICE.c.kind == MONTH)
        .where(INVOICE.c.status == "finalised", ~IS_VOID)
        .order_by(INVOICE.c.period.desc(), INVOICE.c.revision.desc())
        .limit(1)
    )
    row = conn.execute(statement).mappings().first()
    return dict(row) if row else None


STANDING = {
    **{"voided_us": None, "written_off_cents": None, "due_us": None, "vat_check": None},
    **{"conversion": None, "paid_cents": 0, "noted_cents": 0},
}
"""Of an invoice that is neither void nor written off, paid, credited or issued under terms."""


def _with_voids() -> Select[Any]:
    joined: Any = INVOICE
    for table in (VOID, WRITE_OFF, PARTIES):
        joined = joined.outerjoin(table, table.c.invoice_id == INVOICE.c.invoice_id)
    written_off = WRITE_OFF.c.amount_cents.label("written_off_cents")
    paid_cents = cast(paid_of(INVOICE.c.invoice_id), BigInteger).label("paid_cents")
    noted = select(func.coalesce(func.sum(NOTE.c.net_cents + NOTE.c.tax_cents), 0)).where(
        NOTE.c.invoice_id == INVOICE.c.invoice_id
    )
    noted_cents = cast(noted.correlate(INVOICE).scalar_subquery(), BigInteger).label("noted_cents")
    of_parties = PARTIES.c.due_us, PARTIES.c.vat_check, PARTIES.c.conversion
    standing = (VOID.c.voided_us, written_off, *of_parties, paid_cents, noted_cents)
    return select(INVOICE, *standing).select_from(joined)


def conversion_of(invoice: Row) -> Conversion | None:
    """The rate that a final invoice froze."""
    frozen = invoice["conversion"]
    return None if frozen is None else msgspec.convert(frozen, Conversion)


def payable_cents(invoice: Row) -> int:
    """Of one with a number: what its lines sum to, and the tax."""
    return int(invoice["total_cents"] + invoice["tax_cents"])


def credited_cents(invoice: Row) -> int:
    """What of an invoice is to be paid no more, though nobody has paid it."""
    return int(invoice["noted_cents"] + (invoice["written_off_cents"] or 0))


def left_cents(invoice: Row) -> int:
    """What of an invoice is still to be paid."""
    return payable_cents(invoice) - credited_cents(invoice) - int(invoice["paid_cents"])


def insert_write_off(
    conn: Connection, invoice_id: str, cents: int, reason: str, written_by: str, written_us: int
) -> None:
    row = {"invoice_id": invoice_id, "amount_cents": cents, "reason": reason}
    row |= {"written_by": written_by, "written_us": written_us}
    conn.execute(insert(WRITE_OFF), [row])


def numbers_of(series: str, year: str, *, is_credit_note: bool) -> str:
    """`SLU-2026`, or `SLU-CN-2026`, within which numbers run without a gap."""
    return f"{series}-CN-{year}" if is_credit_note else f"{series}-{year}"


def number_of(invoice: Mapping[str, Any]) -> str | None:
    """`SLU-2026-000001`; a draft has none."""
    number = invoice["number"]
    return f"{invoice['series']}-{number:06d}" if number else None


def by_number(conn: Connection, name: str) -> dict[str, Any] | None:
    """The final invoice that documents call `SLU-2026-000001`."""
    series, _, number = name.rpartition("-")
    if not NUMBER.fullmatch(number):
        return None
    numbered = INVOICE.c.series == series, INVOICE.c.number == int(number)
    row = conn.execute(_with_voids().where(*numbered)).mappings().first()
    return dict(row) if row else None


def insert_void(
    conn: Connection, invoice_id: str, reason: str, voided_by: str, voided_us: int
) -> None:
    row = {"invoice_id": invoice_id, "reason": reason, "voided_by": voided_by}
    conn.execute(insert(VOID), [row | {"voided_us": voided_us}])


class IssuedTo(NamedTuple):
    """Who billed whom with an invoice, under which tax, and until when it is to be paid."""

    seller: Seller
    buyer: BillingProfile
    rule: TaxRule
    issued_us: int
    due_us: int


class State(NamedTuple):
    """By what a run sees that no other has changed an invoice."""

    invoice_id: str
    status: str
    computed_us: int
    voided_us: int | None
    reviewed_us: int | None


def states(conn: Connection, org: str) -> list[State]:
    """Of every invoice of an organization. A run compares them to see that no other run came
    between."""
    joined: Any = INVOICE
    for table in (VOID, REVIEW):
        joined = joined.outerjoin(table, table.c.invoice_id == INVOICE.c.invoice_id)
    columns = (INVOICE.c.invoice_id, INVOICE.c.status, INVOICE.c.computed_us)
    statement = select(*columns, VOID.c.voided_us, REVIEW.c.changed_us).select_from(joined)
    rows = conn.execute(statement.where(INVOICE.c.org == org).order_by(INVOICE.c.invoice_id))
    return [State(*row) for row in rows]


def void_ids(conn: Connection, org: str) -> set[str]:
    joined = VOID.join(INVOICE, INVOICE.c.invoice_id == VOID.c.invoice_id)
    statement = select(VOID.c.invoice_id).select_from(joined).where(INVOICE.c.org == org)
    return set(conn.execute(statement).scalars())


def cuts(conn: Connection, org: str) -> list[tuple[str, Cut]]:
    """(invoice, cut) of every invoice of an organization, void ones included."""
    columns = (CUT.c[name] for name in Cut._fields)
    joined = CUT.join(INVOICE, INVOICE.c.invoice_id == CUT.c.invoice_id)
    statement = select(CUT.c.invoice_id, *columns).select_from(joined)
    rows = conn.execute(statement.where(INVOICE.c.org == org).order_by(*CUT.primary_key))
    return [(invoice_id, Cut(*cut)) for invoice_id, *cut in rows]


def billed(conn: Connection, org: str, month_us: int, but: str) -> dict[Cell, Sums]:
    """What the lines of all invoices but one have of a month's charges, by cell. A void one has
    none."""
    cell = [INVOICE.c.org, *(LINE.c[name] for name in CELL[1:])]
    sums = [func.sum(LINE.c[name]) for name in SUMMED]
    statement = (
        select(*cell, *sums)
        .join(INVOICE, INVOICE.c.invoice_id == LINE.c.invoice_id)
        .where(INVOICE.c.org == org, LINE.c.service_start_us == month_us)
        .where(INVOICE.c.invoice_id != but, ~IS_VOID, LINE.c.kind.in_(CHARGED))
        .group_by(*cell)
    )
    by_cell: dict[Cell, Sums] = {}
    for row in conn.execute(statement):
        values: tuple[Any, ...] = tuple(row)
        by_cell[values[: len(CELL)]] = (int(values[-3]), int(values[-2]), int(values[-1]))
    return by_cell


def of_terms(conn: Connection, org: str, month_us: int, but: str) -> dict[tuple[str, str], int]:
    """What the lines of all invoices but one have of a month's terms, by kind and term. A void one
    has none."""
    by = (LINE.c.kind, LINE.c.term_id)
    statement = (
        select(*by, func.sum(LINE.c.amount_nanousd))
        .join(INVOICE, INVOICE.c.invoice_id == LINE.c.invoice_id)
        .where(INVOICE.c.org == org, LINE.c.service_start_us == month_us)
        .where(INVOICE.c.invoice_id != but, ~IS_VOID, LINE.c.kind.in_(OF_TERMS))
        .group_by(*by)
    )
    return {(kind, term_id): int(amount) for kind, term_id, amount in conn.execute(statement)}


def billed_months(conn: Connection, org: str) -> list[int]:
    """The starts of months of which a final invoice that counts has lines."""
    statement = (
        select(LINE.c.service_start_us)
        .join(INVOICE, INVOICE.c.invoice_id == LINE.c.invoice_id)
        .where(INVOICE.c.org == org, INVOICE.c.status == "finalised", ~IS_VOID)
        .distinct()
    )
    return sorted(conn.execute(statement).scalars())


def lines(conn: Connection, invoice_id: str) -> list[dict[str, Any]]:
    """The lines of an invoice, in their order."""
    rows = conn.execute(select(LINE).where(LINE.c.invoice_id == invoice_id).order_by(LINE.c.seq))
    return [dict(row) for row in rows.mappings()]


def line(conn: Connection, invoice_id: str, seq: int) -> dict[str, Any] | None:
    """A line with the organization of its invoice."""
    joined = LINE.join(INVOICE, INVOICE.c.invoice_id == LINE.c.invoice_id)
    statement = select(LINE, INVOICE.c.org).select_from(joined)
    where = statement.where(LINE.c.invoice_id == invoice_id, LINE.c.seq == seq)
    row = conn.execute(where).mappings().first()
    return dict(row) if row else None


def delete_draft(conn: Connection, invoice_id: str) -> None:
    for table in (CUT, LINE, INVOICE):
        conn.execute(delete(table).where(table.c.invoice_id == invoice_id))


def insert_draft(
    conn: Connection, invoice: Row, line_rows: Sequence[Row], cuts: Sequence[Cut]
) -> None:
    conn.execute(insert(INVOICE), [invoice])
    insert_rows(conn, LINE, line_rows)
    of_invoice = {"invoice_id": invoice["invoice_id"]}
    insert_rows(conn, CUT, [of_invoice | cut._asdict() for cut in cuts])


def insert_parties(
    conn: Connection,
    invoice_id: str,
    billed: BilledAs,
    conversion: Conversion | None,
    issued_us: int,
) -> dict[str, Any]:
    """Freeze who bills whom, under which tax, what is known of the buyer's VAT id, at which rate
    it is converted, and until when it is to be paid. The answer is of the last three."""
    terms_us = billed.buyer.payment_terms_days * DAY_US
    row = {"invoice_id": invoice_id, "issued_us": issued_us, "due_us": issued_us + terms_us}
    values = msgspec.to_builtins(billed._asdict())
    check = vat_store.last(conn, billed.buyer.vat_id)
    frozen = {"vat_check": check, "conversion": conversion}
    frozen = {name: msgspec.to_builtins(value) for name, value in frozen.items()}
    conn.execute(insert(PARTIES), [row | values | frozen])
    return {"due_us": issued_us + terms_us, **frozen}


def parties_of(conn: Connection, invoice_id: str) -> IssuedTo | None:
    """The parties that a final invoice froze. None where nobody sold it."""
    row = conn.execute(select(PARTIES).where(PARTIES.c.invoice_id == invoice_id)).first()
    if row is None:
        return None
    seller, buyer = msgspec.convert(row.seller, Seller), msgspec.convert(row.buyer, BillingProfile)
    return IssuedTo(seller, buyer, msgspec.convert(row.rule, TaxRule), row.issued_us, row.due_us)


def insert_taxes(conn: Connection, invoice_id: str, taxation: Taxation) -> None:
    """Freeze which lines are taxed how, and the taxes."""
    for place, amount in enumerate(taxation.amounts, start=1):
        of_tax = {"invoice_id": invoice_id, "place": place}
        sums = {"base_cents": amount.base_cents, "tax_cents": amount.tax_cents}
        row = of_tax | sums | amount.treatment._asdict() | {"account": amount.accounts[0]}
        shares = row.pop("shares")
        conn.execute(insert(TAX), [row])
        if shares:
            parts = [part._asdict() for part in amount.parts]
            columns = ("jurisdiction", "rate_ppm", "account", "tax_cents")
            rows = [
                of_tax | {"share": share} | {name: part[name] for name in columns}
                for share, part in enumerate(parts, start=1)
            ]
            conn.execute(insert(TAX_SHARE), rows)
        seqs = [seq for seq, of_line in taxation.places.items() if of_line == place]
        of_place = LINE.c.invoice_id == invoice_id, in_list(conn, LINE.c.seq, seqs)
        conn.execute(update(LINE).where(*of_place).values(tax_place=place))


def taxes_of(conn: Connection, invoice_id: str, line_rows: Sequence[Row]) -> Taxation:
    """The taxes that a final invoice froze; none where nobody sold it."""
    statement = select(TAX).where(TAX.c.invoice_id == invoice_id).order_by(TAX.c.place)
    amounts = tuple(
        _tax_amount(dict(row), _shares_of(conn, invoice_id, row["place"]))
        for row in conn.execute(statement).mappings()
    )
    places = {row["seq"]: row["tax_place"] for row in line_rows if row["tax_place"] is not None}
    return Taxation(amounts, places)


def _tax_amount(row: Mapping[str, Any], shares: Sequence[Mapping[str, Any]]) -> TaxAmount:
    named = (row["category"], row["rate_ppm"], row["reason_code"], row["note"])
    of_shares = tuple(TaxShare(each["jurisdiction"], each["rate_ppm"]) for each in shares)
    parts = shares or (row,)
    return TaxAmount(
        Treatment(*named, of_shares),
        tuple(part["account"] for part in parts),
        row["base_cents"],
        tuple(part["tax_cents"] for part in parts),
    )


def _shares_of(conn: Connection, invoice_id: str, place: int) -> Sequence[Mapping[str, Any]]:
    of_tax = TAX_SHARE.c.invoice_id == invoice_id, TAX_SHARE.c.place == place
    statement = select(TAX_SHARE).where(*of_tax).order_by(TAX_SHARE.c.share)
    return [dict(row) for row in conn.execute(statement).mappings()]


def finalise(conn: Connection, invoice_id: str, series: str, **values: int) -> int:
    """Give the draft the next number of its series and these values, and freeze it."""
    number = next_number(conn, series)
    conn.execute(
        update(INVOICE)
        .where(INVOICE.c.invoice_id == invoice_id)
        .values(status="finalised", number=number, series=series, **values)
    )
    return number


def next_number(conn: Connection, series: str) -> int:
    """Take the next number of a series. It goes back with the transaction, so there is no gap."""
    return add_one(conn, COUNTER, {"series": series}, "next_number", 2) - 1
