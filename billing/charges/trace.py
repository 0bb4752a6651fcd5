"""From a line of an invoice to the transfers behind it, a page at a time, and back from a call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from billing.charges.audit import PARTS, RECORDS, is_of, within
from billing.charges.sums import RECORD, month_of
from billing.credits.credit import account_of, grant_of
from billing.db.engine import Store, walk_along_index
from billing.invoices import agreed
from billing.invoices import store as invoices
from billing.invoices.invoicing import LineKind
from billing.ledger.posting import unbilled
from billing.ledger.store import TRANSFER
from billing.prices.book import PriceBook, Unpriced
from billing.prices.rating import part_of, units_of
from billing.prices.versions import book_of
from billing.types import Usage

PAGE = 1000


@dataclass(frozen=True, slots=True)
class CallLine:
    """What a line of an invoice has of a transfer of a call."""

    invoice_id: str
    number: str | None
    """A draft has none."""
    line: dict[str, Any]
    transfer: dict[str, Any]

    @property
    def amount_nanousd(self) -> int:
        return int(self.transfer["amount_nanousd"])


@dataclass(frozen=True, slots=True)
class BilledCall:
    """A call with the lines that have its charges, void invoices left out."""

    rid: str
    charged_nanousd: int
    """By its transfers: charges, less what was taken back and what credit paid."""
    lines: tuple[CallLine, ...]

    @property
    def billed_nanousd(self) -> int:
        return sum(each.amount_nanousd for each in self.lines)

    @property
    def unbilled_nanousd(self) -> int:
        """What no invoice has yet."""
        return self.charged_nanousd - self.billed_nanousd


def line_transfers(
    store: Store,
    invoice_id: str,
    seq: int,
    *,
    after: tuple[int, str] | None = None,
    limit: int = PAGE,
) -> list[dict[str, Any]]:
    """The transfers behind a line, the oldest first, each with what the line carries of it. They
    begin behind the one that counts at an instant and has an id. A rounding has none."""
    with store.read() as conn:
        line = invoices.line(conn, invoice_id, seq)
        if line is None or line["kind"] == LineKind.ROUNDING:
            return []
        if line["kind"] in invoices.OF_TERMS:
            return [] if after else _of_term(conn, invoice_id, line)
        book = book_of(conn)
        walk_along_index(conn)
        links: list[dict[str, Any]] = []
        while len(links) < limit:
            page = _page(conn, line, after, limit)
            links += [link for row in page if (link := _link(row, line, book))]
            if len(page) < limit:
                break
            after = page[-1]["booked_us"], page[-1]["transfer_id"]
        return links[:limit]


def every_line_transfer(store: Store, invoice_id: str, seq: int) -> Iterator[dict[str, Any]]:
    """All of them, read a page at a time."""
    after: tuple[int, str] | None = None
    while page := line_transfers(store, invoice_id, seq, after=after):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]["booked_us"], page[-1]["transfer_id"]


def billed_call(store: Store, rid: str) -> BilledCall:
    """The lines of invoices that have the charges of a call: the way back from a line to it."""
    with store.read() as conn:
        rows = _of_call(conn, rid)
        book = book_of(conn)
        lines = tuple(
            CallLine(line["invoice_id"], invoices.number_of(line), line, link)
            for row in rows
            for line in _lines_of(conn, row)
            if (link := _link(_part(row, line), line, book))
        )
    return BilledCall(rid, sum(_moved(row) for row in rows), lines)


def _of_call(conn: Connection, rid: str) -> list[dict[str, Any]]:
    """The transfers of a call that a tenant is charged by, with what their records say."""
    shown = [TRANSFER.c[name] for name in (*_SHOWN, "created_us", "org")]
    sides = TRANSFER.c.debit_account, TRANSFER.c.credit_account
    recorded = [_either(name).label(name) for name in (*RECORD, *PARTS, *USAGE)]
    statement = (
        select(*shown, *sides, *recorded)
        .select_from(_with_records())
        .where(TRANSFER.c.rid == rid, TRANSFER.c.kind.in_(("charge", "reversal", "burn")))
        .order_by(TRANSFER.c.created_us, TRANSFER.c.transfer_id)
    )
    rows = [dict(row) for row in conn.execute(statement).mappings()]
    return [row for row in rows if unbilled(row["org"]) in (row[each.name] for each in sides)]


def _lines_of(conn: Connection, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Lines that may have a transfer: of its month, on the invoice whose cut it is in."""
    in_cut = (invoices.CUT.c.invoice_id == invoices.LINE.c.invoice_id) & (
        invoices.CUT.c.service_start_us == invoices.LINE.c.service_start_us
    )
    of_invoice = invoices.INVOICE.c.invoice_id == invoices.LINE.c.invoice_id
    joined = invoices.LINE.join(invoices.INVOICE, of_invoice).join(invoices.CUT, in_cut)
    grant_id = grant_of(row)
    if grant_id:
        fits = invoices.LINE.c.kind == LineKind.CREDIT, invoices.LINE.c.grant_id == grant_id
    else:
        kind = LineKind.ADJUSTMENT if row["kind"] == "reversal" else LineKind.USAGE
        same = (invoices.LINE.c[name] == row[name] for name in RECORD)
        fits = invoices.LINE.c.kind == kind, *same
    statement = (
        select(invoices.LINE, invoices.INVOICE.c.series, invoices.INVOICE.c.number)
        .select_from(joined)
        .where(invoices.INVOICE.c.org == row["org"], ~invoices.IS_VOID, *fits)
        .where(invoices.LINE.c.service_start_us == month_of(row["booked_us"]))
        .where(invoices.CUT.c.after_us < row["created_us"])
        .where(invoices.CUT.c.upto_us >= row["created_us"])
        .order_by(invoices.LINE.c.seq)
    )
    return [dict(line) for line in conn.execute(statement).mappings()]


def _part(row: dict[str, Any], line: dict[str, Any]) -> dict[str, Any]:
    """A transfer with what its record has for the component of a line."""
    component = line["component"]
    return {**row, "part_nanousd": row[part_of(component)] if component else None}


def _moved(row: dict[str, Any]) -> int:
    """What a transfer adds to what is unbilled."""
    sign = 1 if row["debit_account"] == unbilled(row["org"]) else -1
    return sign * int(row["amount_nanousd"])


def _of_term(conn: Connection, invoice_id: str, line: dict[str, Any]) -> list[dict[str, Any]]:
    """The one transfer of a line of terms, once its invoice has a number."""
    shown = [TRANSFER.c[name] for name in _SHOWN]
    named = agreed.transfer_id(invoice_id, line)
    rows = conn.execute(select(*shown).where(TRANSFER.c.transfer_id == named)).mappings()
    return [{**row, "amount_nanousd": line["amount_nanousd"]} for row in rows]


def _page(
    conn: Connection, line: dict[str, Any], after: tuple[int, str] | None, limit: int
) -> list[dict[str, Any]]:
    """Transfers that may stand behind a line. They are found along the index of the organization's
    transfers by time, so that the first ones of a long line cost no more than those of a short
    one."""
    rows: list[dict[str, Any]] = []
    place = TRANSFER.c.booked_us, TRANSFER.c.transfer_id
    for owner, cut in invoices.cuts(conn, line["org"]):
        if owner != line["invoice_id"] or cut.service_start_us != line["service_start_us"]:
            continue
        statement = _candidates(line).where(within(line["org"], cut)).order_by(*place).limit(limit)
        if after is not None:
            statement = statement.where(
                TRANSFER.c.booked_us >= after[0],
                (TRANSFER.c.booked_us > after[0]) | (TRANSFER.c.transfer_id > after[1]),
            )
        rows += [dict(row) for row in conn.execute(statement).mappings()]
    return sorted(rows, key=lambda row: (row["booked_us"], row["transfer_id"]))[:limit]


USAGE = Usage.__struct_fields__
_SHOWN = ("transfer_id", "rid", "kind", "booked_us", "amount_nanousd")


def _candidates(line: dict[str, Any]) -> Select[Any]:
    shown = [TRANSFER.c[name] for name in _SHOWN]
    if line["kind"] == LineKind.CREDIT:
        account = account_of(line["org"], line["grant_id"])
        sides = (TRANSFER.c.debit_account, TRANSFER.c.credit_account)
        return select(*shown).where((sides[0] == account) | (sides[1] == account))
    kind = "reversal" if line["kind"] == LineKind.ADJUSTMENT else "charge"
    return (
        select(
            *shown,
            _either(part_of(line["component"])).label("part_nanousd"),
            *(_either(name).label(name) for name in USAGE),
        )
        .select_from(_with_records())
        .where(TRANSFER.c.kind == kind, *(_either(name) == line[name] for name in RECORD))
    )


def _with_records() -> Any:
    joined: Any = TRANSFER
    for record, n in RECORDS:
        joined = joined.outerjoin(record, is_of(record, n))
    return joined


def _either(name: str) -> ColumnElement[Any]:
    """A column of the record that a transfer names: an event or a correction."""
    return func.coalesce(*(record.c[name] for record, _ in RECORDS))


def _link(row: dict[str, Any], line: dict[str, Any], book: PriceBook) -> dict[str, Any] | None:
    """A transfer with the amount that the line has of it; None where another line has it."""
    shown = {name: row[name] for name in ("transfer_id", "rid", "kind", "booked_us")}
    if line["kind"] == LineKind.CREDIT:
        sign = 1 if row["kind"] == "reversal" else -1
        return {**shown, "amount_nanousd": sign * row["amount_nanousd"]}
    part = row["part_nanousd"]
    prices = book.of_version(
        line["price_version"], line["model"], line["tier"], bool(line["batch"])
    )
    assert not isinstance(prices, Unpriced), f"{row['rid']} was charged without a price"
    usage = Usage(**{name: row[name] for name in USAGE})
    unit_price = {component: price for component, _, price in units_of(usage, prices)}
    if not part or unit_price.get(line["component"]) != line["unit_price_nanousd_per_mtok"]:
        return None
    return {**shown, "amount_nanousd": -part if line["kind"] == LineKind.ADJUSTMENT else part}
