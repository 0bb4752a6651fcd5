"""Statements that look for broken laws: each returns the offending rows, at most a few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Integer,
    Row,
    String,
    Table,
    case,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    union_all,
)
from sqlalchemy.sql.expression import Subquery

from billing.rollup import DAY_CELL, DAY_US, DIMENSIONS, HOUR_CELL, SUMMED
from billing.store.holds import HOLD
from billing.store.invoices import INVOICE, LINE, LINK, ON_INVOICE
from billing.store.rollups import DAY, HOUR
from billing.store.sums import best_records, hour_of
from billing.store.transfers import ACCOUNT, TRANSFER
from billing.store.usage import CORRECTION, EVENT, USAGE_COLUMNS, current

FEW = 3
STREAMED = 2000


def count(conn: Connection, name: str) -> int:
    tables = {
        "transfer": TRANSFER,
        "account": ACCOUNT,
        "open_hold": HOLD,
        "invoice": INVOICE,
        "usage_hour": HOUR,
        "usage_day": DAY,
    }
    return int(conn.execute(select(func.count()).select_from(tables[name])).scalar_one())


def totals(conn: Connection) -> tuple[int, int]:
    """Debits and credits over all accounts."""
    both = (
        select(func.coalesce(func.sum(ACCOUNT.c.debits), 0)),
        select(func.coalesce(func.sum(ACCOUNT.c.credits), 0)),
    )
    debits, credits = (int(conn.execute(one).scalar_one()) for one in both)
    return debits, credits


def wrong_totals(conn: Connection) -> list[tuple[Any, ...]]:
    """(account, debits, credits, recomputed debits, recomputed credits)."""
    debited = _moved(TRANSFER.c.debit_account, "debited")
    credited = _moved(TRANSFER.c.credit_account, "credited")
    joined = ACCOUNT.outerjoin(debited, debited.c.code == ACCOUNT.c.code).outerjoin(
        credited, credited.c.code == ACCOUNT.c.code
    )
    real_debits = func.coalesce(debited.c.debited, 0)
    real_credits = func.coalesce(credited.c.credited, 0)
    statement = (
        select(ACCOUNT.c.code, ACCOUNT.c.debits, ACCOUNT.c.credits, real_debits, real_credits)
        .select_from(joined)
        .where((ACCOUNT.c.debits != real_debits) | (ACCOUNT.c.credits != real_credits))
        .order_by(ACCOUNT.c.code)
    )
    return [tuple(row) for row in conn.execute(statement.limit(FEW))]


def currency_mixed(conn: Connection) -> list[str]:
    """Transfers between accounts of another currency than their own."""
    wrong = (
        select(TRANSFER.c.transfer_id)
        .join(
            ACCOUNT,
            (ACCOUNT.c.code == TRANSFER.c.debit_account)
            | (ACCOUNT.c.code == TRANSFER.c.credit_account),
        )
        .where(ACCOUNT.c.currency != TRANSFER.c.currency)
    )
    return list(conn.execute(wrong.limit(FEW)).scalars())


def charges_missing(conn: Connection) -> list[tuple[Any, ...]]:
    """(rid, n, amount, charged): records whose charge is absent or of another amount."""
    records = _records()
    charge = records.c.rid + ":charge:" + cast(records.c.n, String)
    joined = records.outerjoin(TRANSFER, TRANSFER.c.transfer_id == charge)
    charged = func.coalesce(TRANSFER.c.amount_nanousd, 0)
    statement = (
        select(records.c.rid, records.c.n, records.c.amount_nanousd, charged)
        .select_from(joined)
        .where(records.c.amount_nanousd != charged)
    )
    return [tuple(row) for row in conn.execute(statement.limit(FEW))]


def transfers_astray(conn: Connection) -> list[str]:
    """Charges and reversals that stand for no record of their request id."""
    records = _records()
    number = cast(records.c.n, String)
    named = case(
        (TRANSFER.c.kind == "charge", records.c.rid + ":charge:" + number),
        else_=records.c.rid + ":reversal:" + number,
    )
    behind = select(literal(1)).where(
        records.c.rid == TRANSFER.c.rid, named == TRANSFER.c.transfer_id
    )
    statement = select(TRANSFER.c.transfer_id).where(
        TRANSFER.c.kind.in_(("charge", "reversal")), ~behind.exists()
    )
    return list(conn.execute(statement.limit(FEW)).scalars())


def wrong_nets(conn: Connection) -> list[tuple[Any, ...]]:
    """(rid, amount of its best record, net of its transfers) where they differ."""
    usage = current()
    signed = case(
        (TRANSFER.c.kind == "charge", TRANSFER.c.amount_nanousd),
        else_=-TRANSFER.c.amount_nanousd,
    )
    net = (
        select(TRANSFER.c.rid, func.sum(signed).label("net"))
        .where(TRANSFER.c.kind.in_(("charge", "reversal")))
        .group_by(TRANSFER.c.rid)
        .subquery()
    )
    booked = func.coalesce(net.c.net, 0)
    statement = (
        select(usage.c.rid, usage.c.amount_nanousd, booked)
        .select_from(usage.outerjoin(net, net.c.rid == usage.c.rid))
        .where(usage.c.amount_nanousd != booked)
    )
    return [tuple(row) for row in conn.execute(statement.limit(FEW))]


def every_record(conn: Connection) -> Iterator[Row[Any]]:
    """All events and corrections, streamed."""
    columns = [name for name in USAGE_COLUMNS if name != "payload_sha"]
    for table in (EVENT, CORRECTION):
        statement = select(*(table.c[name] for name in columns)).execution_options(
            yield_per=STREAMED
        )
        yield from conn.execute(statement)


def holds_of_booked_calls(conn: Connection) -> list[str]:
    statement = select(HOLD.c.rid).join(EVENT, EVENT.c.rid == HOLD.c.rid)
    return list(conn.execute(statement.limit(FEW)).scalars())


WrongSums = list[tuple[tuple[Any, ...], tuple[int, ...], tuple[int, ...]]]
"""(cell, its sums as they stand, as they should be) where they differ."""


def wrong_hours(conn: Connection) -> WrongSums:
    """Hours that are not the sums over the best records."""
    used = best_records({})
    by = [hour_of(used).label("hour_us"), *(used.c[name] for name in DIMENSIONS)]
    return _wrong_sums(conn, HOUR, HOUR_CELL, used, by)


def wrong_days(conn: Connection) -> WrongSums:
    """Days that are not the sums of their hours."""
    width = literal_column(str(DAY_US), Integer)
    by = [
        (HOUR.c.hour_us - HOUR.c.hour_us % width).label("day_us"),
        *(HOUR.c[name] for name in DIMENSIONS),
    ]
    return _wrong_sums(conn, DAY, DAY_CELL, HOUR, by)


def _wrong_sums(
    conn: Connection,
    table: Table,
    key: Sequence[str],
    summed: FromClause,
    by: Sequence[ColumnElement[Any]],
) -> WrongSums:
    """Compare a table of sums with the sums of something finer by its key."""
    zeros: list[ColumnElement[int]] = [literal_column("0").label(f"no_{name}") for name in SUMMED]
    stands = select(*(table.c[name] for name in (*key, *SUMMED)), *zeros)
    real = select(*by, *zeros, *(func.sum(summed.c[name]) for name in SUMMED)).group_by(*by)
    both = union_all(stands, real).subquery("both")
    cell = [both.c[name] for name in key]
    stood = [func.sum(both.c[name]) for name in SUMMED]
    should = [func.sum(both.c[f"no_{name}"]) for name in SUMMED]
    differs = or_(*(one != other for one, other in zip(stood, should, strict=True)))
    statement = select(*cell, *stood, *should).group_by(*cell).having(differs).order_by(*cell)
    return [
        (
            tuple(row[: len(key)]),
            tuple(map(int, row[len(key) : -len(SUMMED)])),
            tuple(map(int, row[-len(SUMMED) :])),
        )
        for row in conn.execute(statement.limit(FEW))
    ]


def invoice_sums(conn: Connection) -> list[dict[str, Any]]:
    """Each invoice with the sum of its lines, of its usage and adjustments, of its transfers."""
    billed = case((LINE.c.kind != "rounding", LINE.c.amount_nanousd), else_=0)
    by_line = (
        select(
            LINE.c.invoice_id,
            func.sum(LINE.c.amount_nanousd).label("lines"),
            func.sum(billed).label("billed"),
        )
        .group_by(LINE.c.invoice_id)
        .subquery()
    )
    signed = case(
        (TRANSFER.c.kind == "charge", TRANSFER.c.amount_nanousd),
        else_=-TRANSFER.c.amount_nanousd,
    )
    attached = (
        select(ON_INVOICE.c.invoice_id, func.sum(signed).label("attached"))
        .join(TRANSFER, TRANSFER.c.transfer_id == ON_INVOICE.c.transfer_id)
        .group_by(ON_INVOICE.c.invoice_id)
        .subquery()
    )
    joined = INVOICE.outerjoin(by_line, by_line.c.invoice_id == INVOICE.c.invoice_id).outerjoin(
        attached, attached.c.invoice_id == INVOICE.c.invoice_id
    )
    rows = conn.execute(
        select(INVOICE, by_line.c.lines, by_line.c.billed, attached.c.attached)
        .select_from(joined)
        .order_by(INVOICE.c.series, INVOICE.c.number)
    )
    return [dict(row) for row in rows.mappings()]


def lines_unlike_links(conn: Connection) -> list[tuple[Any, ...]]:
    """(invoice, line, amount, linked) where a line is not the sum of its links."""
    linked = (
        select(LINK.c.invoice_id, LINK.c.seq, func.sum(LINK.c.amount_nanousd).label("linked"))
        .group_by(LINK.c.invoice_id, LINK.c.seq)
        .subquery()
    )
    total = func.coalesce(linked.c.linked, 0)
    statement = (
        select(LINE.c.invoice_id, LINE.c.seq, LINE.c.amount_nanousd, total)
        .select_from(
            LINE.outerjoin(
                linked,
                (linked.c.invoice_id == LINE.c.invoice_id) & (linked.c.seq == LINE.c.seq),
            )
        )
        .where(LINE.c.kind != "rounding", LINE.c.amount_nanousd != total)
    )
    return [tuple(row) for row in conn.execute(statement.limit(FEW))]


def transfers_unlike_links(conn: Connection) -> list[tuple[Any, ...]]:
    """(transfer, amount, linked) where the lines do not carry the whole of a transfer."""
    linked = (
        select(LINK.c.transfer_id, func.sum(LINK.c.amount_nanousd).label("linked"))
        .group_by(LINK.c.transfer_id)
        .subquery()
    )
    total = func.abs(func.coalesce(linked.c.linked, 0))
    statement = (
        select(TRANSFER.c.transfer_id, TRANSFER.c.amount_nanousd, total)
        .join(ON_INVOICE, ON_INVOICE.c.transfer_id == TRANSFER.c.transfer_id)
        .outerjoin(linked, linked.c.transfer_id == TRANSFER.c.transfer_id)
        .where(TRANSFER.c.amount_nanousd != total)
    )
    return [tuple(row) for row in conn.execute(statement.limit(FEW))]


def _moved(account: Any, label: str) -> Subquery:
    return (
        select(account.label("code"), func.sum(TRANSFER.c.amount_nanousd).label(label))
        .group_by(account)
        .subquery()
    )


def _records() -> Subquery:
    """Every record of every request id: (rid, n, amount_nanousd)."""
    first = select(EVENT.c.rid, literal(1).label("n"), EVENT.c.amount_nanousd)
    later = select(CORRECTION.c.rid, CORRECTION.c.n, CORRECTION.c.amount_nanousd)
    return union_all(first, later).subquery("records")
