"""Statements that sum transfers and their records again, to compare with sums and with lines.

A transfer names its record: `<rid>:charge:<n>` and `<rid>:reversal:<n>` are of record n. So a
charge is joined with the event or the correction that says what was used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    select,
)

from billing.charges.store import MONTH, SUM
from billing.charges.sums import RECORD, SAME, month_of
from billing.credits.credit import grant_of
from billing.invoices.cuts import Cut
from billing.invoices.invoicing import LineKind
from billing.invoices.store import CHARGED, CUT, INVOICE, LINE
from billing.ledger.posting import unbilled
from billing.ledger.store import TRANSFER
from billing.periods import period_at
from billing.prices.rating import part_of
from billing.prices.tariff import Component
from billing.types import COMPLETION, PROMPT
from billing.usage.store import CORRECTION, EVENT

OF_UNITS = "units_nanousd"
PARTS = {part_of(component): component for component in Component}
"""By part of a charge what it is for. That of units is for what the record calls them."""
RECORDS: tuple[tuple[FromClause, ColumnElement[str]], ...] = (
    (EVENT, literal("1")),
    (CORRECTION, cast(CORRECTION.c.n, String)),
)
"""The two tables of records, each with the number of a record as text."""

Group = tuple[Any, ...]
"""(line kind, what a line shows of a record, grant, what is summed): a component, the whole amount
that was `moved`, the tokens of `prompt` or `generated`, or how many transfers have a part."""
Amounts = dict[Group, int]


def orgs(conn: Connection) -> Iterator[str]:
    """Every organization that has transfers, sums or invoices."""
    last = ""
    while True:
        nexts = [
            conn.execute(select(func.min(column)).where(column > last)).scalar_one()
            for column in (TRANSFER.c.org, MONTH.c.org, SUM.c.org, INVOICE.c.org)
        ]
        if not (after := [org for org in nexts if org is not None]):
            return
        last = min(after)
        yield last


def months(conn: Connection, org: str) -> list[int]:
    """Every month in which an organization has transfers, sums, lines or cuts."""
    month_starts: set[int] = set()
    for table in (MONTH, SUM):
        of_org = select(table.c.service_start_us).where(table.c.org == org)
        month_starts.update(conn.execute(of_org.distinct()).scalars())
    for table in (LINE, CUT):
        joined = table.join(INVOICE, INVOICE.c.invoice_id == table.c.invoice_id)
        of_org = select(table.c.service_start_us).select_from(joined)
        month_starts.update(conn.execute(of_org.where(INVOICE.c.org == org).distinct()).scalars())
    from_us: int | None = 0
    while from_us is not None:
        later = TRANSFER.c.org == org, TRANSFER.c.booked_us >= from_us
        at_us = conn.execute(select(func.min(TRANSFER.c.booked_us)).where(*later)).scalar_one()
        if at_us is not None:
            month_starts.add(month_of(at_us))
        from_us = None if at_us is None else period_at(at_us).end_us
    return sorted(month_starts)


def within(org: str, cut: Cut) -> ColumnElement[bool]:
    """The condition that a transfer is of an organization and in a cut."""
    account = unbilled(org)
    return and_(
        TRANSFER.c.org == org,
        TRANSFER.c.booked_us >= cut.service_start_us,
        TRANSFER.c.booked_us < period_at(cut.service_start_us).end_us,
        TRANSFER.c.created_us > cut.after_us,
        TRANSFER.c.created_us <= cut.upto_us,
        TRANSFER.c.kind.in_(("charge", "reversal", "burn")),
        (TRANSFER.c.debit_account == account) | (TRANSFER.c.credit_account == account),
    )


def is_of(record: FromClause, n: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a record is the one a transfer names."""
    named = TRANSFER.c.rid + ":" + TRANSFER.c.kind + ":" + n
    return and_(record.c.rid == TRANSFER.c.rid, TRANSFER.c.transfer_id == named)


def amounts(conn: Connection, org: str, cut: Cut) -> Amounts:
    """What the transfers of a cut sum to."""
    sums: Amounts = {}
    for record, n in RECORDS:
        for row in conn.execute(_records(record, n, org, cut)).mappings():
            kind = LineKind.ADJUSTMENT if row["kind"] == "reversal" else LineKind.USAGE
            sign = -1 if kind is LineKind.ADJUSTMENT else 1
            group = (kind.value, *(row[name] for name in RECORD), "")
            for part, kind_of_part in PARTS.items():
                component = row["unit"] if part == OF_UNITS else kind_of_part.value
                _add(sums, (*group, component), sign * row[part])
                _add(sums, (*group, f"transfers of {component}"), row[f"of_{part}"])
            for name in ("moved", "prompt", "generated"):
                _add(sums, (*group, name), sign * row[name])
    for kind, debit, credit, amount, count in conn.execute(_burns(org, cut)):
        grant_id = grant_of({"org": org, "debit_account": debit, "credit_account": credit})
        group = (LineKind.CREDIT.value, "", "", "", False, "", False, grant_id)
        _add(sums, (*group, ""), int(amount) if kind == "reversal" else -int(amount))
        _add(sums, (*group, "transfers of "), count)
    return sums


def of_sums(conn: Connection, org: str, month_us: int) -> Amounts:
    """What the sums of a month say."""
    return _stored(conn, SUM, SUM.c.org == org, SUM.c.service_start_us == month_us)


def of_lines(conn: Connection, invoice_id: str, month_us: int) -> Amounts:
    """What the lines of an invoice say of a month."""
    return _stored(
        *(conn, LINE, LINE.c.invoice_id == invoice_id),
        *(LINE.c.service_start_us == month_us, LINE.c.kind.in_(CHARGED)),
    )


def invoices_of(conn: Connection, org: str, month_us: int) -> list[str]:
    """Invoices that have lines or cuts of a month."""
    invoice_ids: set[str] = set()
    for table in (LINE, CUT):
        joined = table.join(INVOICE, INVOICE.c.invoice_id == table.c.invoice_id)
        statement = select(table.c.invoice_id).select_from(joined).distinct()
        of_month = table.c.service_start_us == month_us
        invoice_ids.update(conn.execute(statement.where(INVOICE.c.org == org, of_month)).scalars())
    return sorted(invoice_ids)


def _records(
    record: FromClause, n: ColumnElement[str], org: str, cut: Cut
) -> Select[tuple[Any, ...]]:
    by = [TRANSFER.c.kind, *(record.c[name] for name in SAME)]
    return (
        select(
            *by,
            *(func.sum(record.c[part]).label(part) for part in PARTS),
            *(
                func.sum(case((record.c[part] != 0, 1), else_=0)).label(f"of_{part}")
                for part in PARTS
            ),
            func.sum(TRANSFER.c.amount_nanousd).label("moved"),
            func.sum(_tokens(record, PROMPT)).label("prompt"),
            func.sum(_tokens(record, COMPLETION)).label("generated"),
        )
        .select_from(TRANSFER.join(record, is_of(record, n)))
        .where(within(org, cut))
        .group_by(*by)
    )


def _tokens(record: FromClause, classes: Sequence[str]) -> ColumnElement[int]:
    first, *others = (record.c[name] for name in classes)
    return sum(others, start=first)


def _burns(org: str, cut: Cut) -> Select[tuple[Any, ...]]:
    by = (TRANSFER.c.kind, TRANSFER.c.debit_account, TRANSFER.c.credit_account)
    of_grant = f"org:{org}:grant:%"
    moved = TRANSFER.c.debit_account.like(of_grant) | TRANSFER.c.credit_account.like(of_grant)
    sums = (func.sum(TRANSFER.c.amount_nanousd), func.count())
    return select(*by, *sums).where(within(org, cut), moved).group_by(*by)


def _stored(conn: Connection, table: FromClause, *where: ColumnElement[bool]) -> Amounts:
    """Rows of sums or of lines in the form of `amounts`."""
    names = ("kind", *RECORD, "grant_id", "component", "quantity", "amount_nanousd", "transfers")
    sums: Amounts = {}
    for row in conn.execute(select(*(table.c[name] for name in names)).where(*where)):
        *group, component, quantity, amount, count = row
        _add(sums, (*group, component), amount)
        if component:
            _add(sums, (*group, "moved"), amount)
        _add(sums, (*group, f"transfers of {component}"), count)
        if component in PROMPT or component in COMPLETION:
            _add(sums, (*group, "prompt" if component in PROMPT else "generated"), quantity)
    return sums


def _add(sums: Amounts, group: Group, amount: Any) -> None:
    total = sums.get(group, 0) + int(amount)
    if total:
        sums[group] = total
    else:
        sums.pop(group, None)
