"""Statements on dunning."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select

from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.dunning.steps import StepName
from billing.dunning.tables import DunningStepRow

STEP = table_of(DunningStepRow)

Row = dict[str, Any]


def taken(conn: Connection, invoice_ids: Sequence[str]) -> dict[str, dict[StepName, int]]:
    """By invoice the steps that were taken, with their instants."""
    statement = select(STEP).where(in_list(conn, STEP.c.invoice_id, invoice_ids))
    by_invoice: dict[str, dict[StepName, int]] = defaultdict(dict)
    for row in conn.execute(statement).mappings():
        by_invoice[row["invoice_id"]][StepName(row["step"])] = row["taken_us"]
    return by_invoice


def insert_step(
    conn: Connection, invoice_id: str, step: StepName, left_cents: int, now_us: int
) -> None:
    row = {"invoice_id": invoice_id, "step": step.value, "left_cents": left_cents}
    conn.execute(insert(STEP), [row | {"taken_us": now_us}])
