"""Statements on budgets, what counts against them, and their alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, or_, select, tuple_

from billing.budgets.budget import EACH_USER, Budget, scope_of
from billing.budgets.tables import BudgetAlert, BudgetRow, BudgetSpent, UsageBudget
from billing.budgets.windows import Calendar, Ever, Rolling, Unit, Window, period_of
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, add_to, insert_new, insert_rows

BUDGET = table_of(BudgetRow)
SPENT = table_of(BudgetSpent)
COUNTED = table_of(UsageBudget)
ALERT = table_of(BudgetAlert)
KEYS_AT_ONCE = 300

Bucket = tuple[str, str, int]
"""Budget, subject, where the bucket begins."""


def budget_of(row: Any) -> Budget:
    """The budget that a row describes."""
    return Budget(
        budget_id=row.budget_id,
        org=row.org,
        owner=row.owner,
        end_user=row.end_user,
        name=row.name,
        amount_nanousd=row.amount_nanousd,
        is_hard=row.is_hard,
        window=_window(row),
        alert_percents=tuple(row.alert_percents),
        created_us=row.created_us,
        ended_us=row.ended_us,
    )


def columns_of(window: Window) -> dict[str, Any]:
    """The columns that describe a window."""
    match window:
        case Rolling(span_s=span_s):
            return {"window": window.kind, "span_s": span_s}
        case Calendar(zone=zone, anchor=anchor):
            return {"window": window.kind, "zone": zone, "anchor": anchor.isoformat()}
        case Ever():
            return {"window": window.kind}


def _window(row: Any) -> Window:
    if row.window == "total":
        return Ever()
    if row.window == "rolling":
        return Rolling(row.span_s)
    return Calendar(Unit(row.window), row.zone, datetime.fromisoformat(row.anchor))


def of_ids(conn: Connection, ids: Sequence[str]) -> dict[str, Budget]:
    """The budgets with these ids. Ended ones are there too, because their calls may still be
    open."""
    rows = conn.execute(select(BUDGET).where(in_list(conn, BUDGET.c.budget_id, ids)))
    return {row.budget_id: budget_of(row) for row in rows}


def listed(
    conn: Connection,
    *,
    owner: str | None = None,
    end_user: str | None = None,
    behind: tuple[int, str] | None = None,
    limit: int = 1000,
) -> list[Budget]:
    """Budgets that have not ended, in the order in which they were made. `behind` is the instant
    and the id of the last budget of the page before."""
    query = select(BUDGET).where(BUDGET.c.ended_us.is_(None))
    if end_user is not None:
        query = query.where(BUDGET.c.end_user == end_user)
    if owner is not None:
        query = query.where(BUDGET.c.owner == owner)
    if behind is not None:
        query = query.where(tuple_(BUDGET.c.created_us, BUDGET.c.budget_id) > behind)
    rows = conn.execute(query.order_by(BUDGET.c.created_us, BUDGET.c.budget_id).limit(limit))
    return list(map(budget_of, rows))


def of_owners(conn: Connection, owners: Sequence[str]) -> tuple[list[Budget], list[Budget]]:
    """Two lists of budgets that have not ended. The first has those of the owners themselves and of
    each of their end users. The second stands for those of single end users: one hard and one soft
    one at most, however many there are."""
    there = BUDGET.c.owner.in_(owners), BUDGET.c.ended_us.is_(None)
    is_apart = BUDGET.c.end_user.not_in(("", EACH_USER))
    order = BUDGET.c.created_us, BUDGET.c.budget_id
    rows = conn.execute(select(BUDGET).where(*there, ~is_apart).order_by(*order)).all()
    apart = [
        budget_of(row)
        for is_hard in (True, False)
        for row in conn.execute(
            select(BUDGET).where(*there, is_apart, BUDGET.c.is_hard.is_(is_hard)).limit(1)
        )
    ]
    return list(map(budget_of, rows)), apart


def of_user(conn: Connection, owners: Sequence[str], end_user: str) -> list[Budget]:
    """The budgets that owners have made for one end user alone."""
    rows = conn.execute(
        select(BUDGET)
        .where(BUDGET.c.owner.in_(owners), BUDGET.c.end_user == end_user)
        .where(BUDGET.c.ended_us.is_(None))
        .order_by(BUDGET.c.created_us, BUDGET.c.budget_id)
    )
    return list(map(budget_of, rows))


# --- what counts -------------------------------------------------------------------------------


def insert_counted(conn: Connection, rows: Sequence[Row]) -> None:
    """Insert the buckets of calls that are not on record yet. A row that comes twice counts
    once."""
    insert_rows(conn, COUNTED, list({tuple(row.values()): row for row in rows}.values()))


def counted(conn: Connection, rids: Sequence[str]) -> dict[str, list[Bucket]]:
    """The buckets in which each of these calls counts. A call that counts nowhere is absent."""
    buckets: dict[str, list[Bucket]] = {}
    for row in conn.execute(select(COUNTED).where(in_list(conn, COUNTED.c.rid, rids))):
        buckets.setdefault(row.rid, []).append((row.budget_id, row.subject, row.bucket_us))
    return buckets


def add_spent(conn: Connection, rows: Sequence[tuple[str, str, int, int, int]]) -> None:
    """Add amounts to buckets. A row has the budget, the subject, the beginning of the bucket, the
    end of its time, and nano-USD."""
    names = ("budget_id", "subject", "bucket_us", "until_us", "amount_nanousd")
    add_to(conn, SPENT, names, sorted(rows), ("amount_nanousd",))


def spent_in(conn: Connection, buckets: Sequence[Bucket]) -> dict[Bucket, int]:
    """The sum of each of these buckets. A bucket in which nothing was spent is absent."""
    sums: dict[Bucket, int] = {}
    key = tuple_(SPENT.c.budget_id, SPENT.c.subject, SPENT.c.bucket_us)
    for start in range(0, len(buckets), KEYS_AT_ONCE):
        statement = select(SPENT).where(key.in_(buckets[start : start + KEYS_AT_ONCE]))
        for row in conn.execute(statement):
            sums[row.budget_id, row.subject, row.bucket_us] = row.amount_nanousd
    return sums


def spent_between(
    conn: Connection, budget_id: str, subject: str, first_us: int, last_us: int
) -> int:
    """The sum of the buckets that begin in [first, last]."""
    within = (SPENT.c.bucket_us >= first_us) & (SPENT.c.bucket_us <= last_us)
    of_subject = (SPENT.c.budget_id == budget_id) & (SPENT.c.subject == subject)
    total = select(func.coalesce(func.sum(SPENT.c.amount_nanousd), 0)).where(of_subject, within)
    return int(conn.execute(total).scalar_one())


def spent_now(conn: Connection, budget: Budget, subject: str, now_us: int) -> int:
    """The amount that counts against a budget at an instant, corrections included."""
    window = budget.window
    if isinstance(window, Rolling):
        first_us, last_us = window.oldest_us(now_us), now_us
    else:
        first_us = last_us = period_of(window, now_us).start_us
    return spent_between(conn, budget.budget_id, subject, first_us, last_us)


def spent_of_hard(conn: Connection, since_us: int) -> list[tuple[Budget, Any]]:
    """Every bucket of a hard budget that counts at an instant or later."""
    live = or_(SPENT.c.until_us == 0, SPENT.c.until_us >= since_us)
    there = or_(BUDGET.c.ended_us.is_(None), BUDGET.c.ended_us >= since_us)
    rows = conn.execute(
        select(SPENT)
        .join(BUDGET, BUDGET.c.budget_id == SPENT.c.budget_id)
        .where(BUDGET.c.is_hard, live, there)
    ).all()
    budgets = of_ids(conn, list({row.budget_id for row in rows})) if rows else {}
    return [(budgets[row.budget_id], row) for row in rows]


# --- alerts ------------------------------------------------------------------------------------


def insert_alerts(conn: Connection, rows: Sequence[Row]) -> None:
    """Insert alerts. An alert that was raised before stays as it is."""
    insert_new(conn, ALERT, rows)


def raised_since(conn: Connection, budget_id: str, subject: str, since_us: int) -> set[int]:
    """The percentages of a budget that have an alert in a bucket from an instant on."""
    same = (ALERT.c.budget_id == budget_id) & (ALERT.c.subject == subject)
    statement = select(ALERT.c.percent).where(same, ALERT.c.bucket_us >= since_us)
    return set(conn.execute(statement).scalars())


def alerts(
    conn: Connection, *, org: str | None, budget_id: str | None, before_us: int | None, limit: int
) -> list[dict[str, Any]]:
    """Alerts, newest first, each with the name and the scope of its budget."""
    statement = select(ALERT, BUDGET.c.name, BUDGET.c.owner, BUDGET.c.end_user).join(
        BUDGET, BUDGET.c.budget_id == ALERT.c.budget_id
    )
    if org is not None:
        statement = statement.where(ALERT.c.org == org)
    if budget_id is not None:
        statement = statement.where(ALERT.c.budget_id == budget_id)
    if before_us is not None:
        statement = statement.where(ALERT.c.raised_us < before_us)
    order = (ALERT.c.raised_us.desc(), ALERT.c.budget_id, ALERT.c.subject, ALERT.c.percent.desc())
    rows = conn.execute(statement.order_by(*order).limit(limit)).mappings()
    return [dict(row) | {"scope": scope_of(row["owner"], row["end_user"])} for row in rows]
