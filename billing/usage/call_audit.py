"""Statements that look for broken laws of calls and their transfers, in a part of them.

Each returns the offending rows, at most a few. A charge moves to revenue, its reversal from it. By
that they are known among the other transfers of a call.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    String,
    Subquery,
    case,
    cast,
    false,
    func,
    literal,
    or_,
    select,
    true,
    union_all,
)

from billing.db.first_rows import first_rows
from billing.db.spans import Span
from billing.ledger.posting import REVENUE
from billing.ledger.store import TRANSFER
from billing.usage.store import CORRECTION, EVENT, USAGE_COLUMNS

SHA_BYTES = 32
DRAWS = 1 << 16
"""Of so many equally likely values a record draws one: two bytes of its digest."""
PARTS = tuple(
    name
    for name in USAGE_COLUMNS
    if name.endswith("_nanousd") and name not in ("amount_nanousd", "cost_nanousd")
)


def charges_missing(conn: Connection, part: Span) -> list[tuple[Any, ...]]:
    """Records without a charge of their amount to their organization: (rid, n, amount, charged)."""
    records = _records(part)
    charge = TRANSFER.alias("charge")
    same = (charge.c.org == records.c.org) & (
        charge.c.debit_account == "org:" + records.c.org + ":unbilled"
    )
    charged = case((same & (charge.c.credit_account == REVENUE), charge.c.amount_nanousd), else_=0)
    statement = (
        select(records.c.rid, records.c.n, records.c.amount_nanousd, charged)
        .select_from(records.outerjoin(charge, charge.c.transfer_id == _named(records, "charge")))
        .where(records.c.amount_nanousd != charged)
        .order_by(records.c.rid)
    )
    return [tuple(row) for row in first_rows(conn, statement)]


def charges_astray(conn: Connection, part: Span) -> list[str]:
    """Charges, and reversals of charges, that belong to no record of their request id."""
    records = _records(part)
    transfer_id = case(
        (TRANSFER.c.kind == "charge", _named(records, "charge")),
        else_=_named(records, "reversal"),
    )
    behind = select(literal(1)).where(
        records.c.rid == TRANSFER.c.rid, transfer_id == TRANSFER.c.transfer_id
    )
    of_charges = (TRANSFER.c.kind == "charge") | (
        (TRANSFER.c.kind == "reversal") & (TRANSFER.c.debit_account == REVENUE)
    )
    statement = (
        select(TRANSFER.c.transfer_id)
        .where(part.of(TRANSFER.c.rid), of_charges, ~behind.exists())
        .order_by(TRANSFER.c.transfer_id)
    )
    return [row[0] for row in first_rows(conn, statement)]


def reversals_amiss(conn: Connection, part: Span) -> list[str]:
    """Reversals that do not move back the whole of the transfer that they are linked to."""
    undone = TRANSFER.alias("undone")
    mirrored = (
        (undone.c.kind != "reversal")
        & (undone.c.debit_account == TRANSFER.c.credit_account)
        & (undone.c.credit_account == TRANSFER.c.debit_account)
        & (undone.c.amount_nanousd == TRANSFER.c.amount_nanousd)
        & (undone.c.currency == TRANSFER.c.currency)
        & (undone.c.org == TRANSFER.c.org)
        & (func.coalesce(undone.c.rid, "") == func.coalesce(TRANSFER.c.rid, ""))
    )
    reversal = TRANSFER.c.kind == "reversal"
    linked = TRANSFER.c.reverses_id.is_not(None)
    statement = (
        select(TRANSFER.c.transfer_id)
        .select_from(
            TRANSFER.outerjoin(undone, (undone.c.transfer_id == TRANSFER.c.reverses_id) & mirrored)
        )
        .where(
            part.of(TRANSFER.c.rid), reversal | linked, ~reversal | undone.c.transfer_id.is_(None)
        )
        .order_by(TRANSFER.c.transfer_id)
    )
    return [row[0] for row in first_rows(conn, statement)]


def wrong_nets(conn: Connection, part: Span) -> list[tuple[Any, ...]]:
    """Calls whose transfers moved another net to revenue than the amount of their best record:
    (rid, amount, net)."""
    best = _best(part)
    to_revenue = case(
        (TRANSFER.c.credit_account == REVENUE, TRANSFER.c.amount_nanousd),
        (TRANSFER.c.debit_account == REVENUE, -TRANSFER.c.amount_nanousd),
        else_=0,
    )
    net = (
        select(TRANSFER.c.rid, func.sum(to_revenue).label("net"))
        .where(part.of(TRANSFER.c.rid))
        .group_by(TRANSFER.c.rid)
        .subquery()
    )
    moved = func.coalesce(net.c.net, 0)
    statement = (
        select(best.c.rid, best.c.amount_nanousd, moved)
        .select_from(best.outerjoin(net, net.c.rid == best.c.rid))
        .where(best.c.amount_nanousd != moved)
        .order_by(best.c.rid)
    )
    return [tuple(row) for row in first_rows(conn, statement)]


def parts_unlike_amounts(conn: Connection, part: Span) -> list[tuple[Any, ...]]:
    """Records whose amount is not the sum of its parts: (rid, amount, sum)."""
    rows: list[tuple[Any, ...]] = []
    for table in (EVENT, CORRECTION):
        total = sum((table.c[name] for name in PARTS[1:]), start=table.c[PARTS[0]])
        statement = select(table.c.rid, table.c.amount_nanousd, total).where(
            part.of(table.c.rid), table.c.amount_nanousd != total
        )
        rows += [tuple(row) for row in first_rows(conn, statement.order_by(table.c.rid))]
    return rows


def drawn(conn: Connection, part: Span, seed: int, chances: int) -> list[Row[Any]]:
    """A random sample of records: those whose digests draw one of `chances` values of DRAWS. The
    seed selects the sample."""
    names = [name for name in USAGE_COLUMNS if name != "payload_sha"]
    rows: list[Row[Any]] = []
    for table in (EVENT, CORRECTION):
        is_drawn = _is_drawn(table.c.payload_sha, seed, chances)
        statement = select(*(table.c[name] for name in names))
        rows += conn.execute(statement.where(part.of(table.c.rid), is_drawn))
    return sorted(rows, key=lambda row: str(row.rid))


def count_records(conn: Connection) -> int:
    counts = (select(func.count()).select_from(table) for table in (EVENT, CORRECTION))
    return sum(int(conn.execute(one).scalar_one()) for one in counts)


def _is_drawn(sha: ColumnElement[Any], seed: int, chances: int) -> ColumnElement[bool]:
    if not 0 < chances < DRAWS:
        return true() if chances else false()
    place, first = 1 + seed % (SHA_BYTES - 1), seed // SHA_BYTES % DRAWS
    value = func.substr(sha, place, 2)
    end = first + chances
    if end <= DRAWS:
        return (value >= _two(first)) & (value <= _two(end - 1))
    return or_(value >= _two(first), value <= _two(end - DRAWS - 1))


def _two(value: int) -> bytes:
    return value.to_bytes(2, "big")


def _records(part: Span) -> Subquery:
    """Every record of every request id of a part: (rid, n, org, amount_nanousd)."""
    first = select(EVENT.c.rid, literal(1).label("n"), EVENT.c.org, EVENT.c.amount_nanousd)
    later = select(CORRECTION.c.rid, CORRECTION.c.n, CORRECTION.c.org, CORRECTION.c.amount_nanousd)
    return union_all(
        first.where(part.of(EVENT.c.rid)), later.where(part.of(CORRECTION.c.rid))
    ).subquery("records")


def _best(part: Span) -> Subquery:
    """(rid, amount_nanousd) of the best record of every request id of a part."""
    newest = (
        select(CORRECTION.c.rid, func.max(CORRECTION.c.n).label("n"))
        .where(part.of(CORRECTION.c.rid))
        .group_by(CORRECTION.c.rid)
        .subquery()
    )
    amounts = select(CORRECTION.c.rid, CORRECTION.c.amount_nanousd).join(
        newest, (newest.c.rid == CORRECTION.c.rid) & (newest.c.n == CORRECTION.c.n)
    )
    corrected = amounts.subquery()
    amount = func.coalesce(corrected.c.amount_nanousd, EVENT.c.amount_nanousd)
    return (
        select(EVENT.c.rid, amount.label("amount_nanousd"))
        .select_from(EVENT.outerjoin(corrected, corrected.c.rid == EVENT.c.rid))
        .where(part.of(EVENT.c.rid))
        .subquery("best")
    )


def _named(records: Subquery, kind: str) -> ColumnElement[str]:
    return records.c.rid + f":{kind}:" + cast(records.c.n, String)
