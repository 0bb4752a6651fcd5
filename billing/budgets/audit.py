"""Statements that check the sums and alerts of budgets against the events themselves."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Numeric, cast, func, select, union_all

from billing.budgets.store import ALERT, COUNTED, SPENT
from billing.usage.store import CORRECTION, EVENT


def wrong_buckets(conn: Connection, limit: int = 3) -> list[tuple[str, str, int, int]]:
    """Find buckets whose sum is not that of the best records of their calls. A row has the budget,
    the subject, the beginning of the bucket, and how much too much the bucket has."""
    better = (
        select(CORRECTION.c.amount_nanousd)
        .where(CORRECTION.c.rid == COUNTED.c.rid)
        .order_by(CORRECTION.c.n.desc())
        .limit(1)
        .scalar_subquery()
    )
    charged = func.coalesce(better, EVENT.c.amount_nanousd, 0)
    sums = select(
        SPENT.c.budget_id, SPENT.c.subject, SPENT.c.bucket_us, SPENT.c.amount_nanousd.label("moved")
    )
    due = select(
        COUNTED.c.budget_id, COUNTED.c.subject, COUNTED.c.bucket_us, (-charged).label("moved")
    ).select_from(COUNTED.outerjoin(EVENT, EVENT.c.rid == COUNTED.c.rid))
    both = union_all(sums, due).subquery()
    place = both.c.budget_id, both.c.subject, both.c.bucket_us
    wrong = (
        select(*place, func.sum(both.c.moved)).group_by(*place).having(func.sum(both.c.moved) != 0)
    )
    return [
        (row[0], row[1], row[2], int(row[3]))
        for row in conn.execute(wrong.order_by(*place).limit(limit))
    ]


def untrue_alerts(conn: Connection, limit: int = 3) -> list[dict[str, Any]]:
    """Find alerts of a percentage that had not been reached."""
    spent, amount = (cast(ALERT.c[f"{name}_nanousd"], Numeric) for name in ("spent", "amount"))
    early = spent * 100 < amount * ALERT.c.percent  # products that may outgrow a column
    order = ALERT.c.budget_id, ALERT.c.subject, ALERT.c.bucket_us, ALERT.c.percent
    untrue = select(ALERT).where(early).order_by(*order).limit(limit)
    return [dict(row) for row in conn.execute(untrue).mappings()]


def count_counted(conn: Connection) -> int:
    return int(conn.execute(select(func.count()).select_from(COUNTED)).scalar_one())
