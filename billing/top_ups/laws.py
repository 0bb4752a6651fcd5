"""The law of top-ups: each is a paid grant and a receipt, and its refunds are in the ledger."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, String, cast, func, select

from billing.credits.credit import Category
from billing.credits.store import GRANT
from billing.documents.store import FILE, FROZEN_FORM
from billing.ledger.report import Check, judged
from billing.ledger.store import TRANSFER
from billing.money import NANOUSD_PER_CENT
from billing.top_ups.store import REFUND, TOP_UP


def top_ups_are_paid_credit(conn: Connection) -> Check:
    rows = _top_ups(conn)
    return judged(
        "P4 top_ups",
        "a top-up is a paid grant and a receipt of the same amount, and its refunds are booked",
        (problem for row in rows if (problem := _wrong(row))),
        len(rows),
    )


def _top_ups(conn: Connection) -> list[dict[str, Any]]:
    """Each with its grant, its frozen receipt and its refunds, as they stand and as booked."""
    of_refund = REFUND.c.top_up_id + ":refund:" + cast(REFUND.c.n, String)
    sums = {
        "receipts": select(func.count()).where(
            FILE.c.document_id == TOP_UP.c.top_up_id, FILE.c.form == FROZEN_FORM
        ),
        "refunded": select(func.coalesce(func.sum(REFUND.c.amount_cents), 0)).where(
            REFUND.c.top_up_id == TOP_UP.c.top_up_id
        ),
        "booked": select(func.coalesce(func.sum(TRANSFER.c.amount_nanousd), 0))
        .select_from(REFUND.join(TRANSFER, TRANSFER.c.transfer_id == of_refund))
        .where(REFUND.c.top_up_id == TOP_UP.c.top_up_id),
    }
    columns = [each.correlate(TOP_UP).scalar_subquery().label(name) for name, each in sums.items()]
    joined = TOP_UP.outerjoin(GRANT, GRANT.c.grant_id == TOP_UP.c.top_up_id)
    granted = (GRANT.c.org.label("granted_to"), GRANT.c.category, GRANT.c.amount_nanousd)
    statement = select(TOP_UP, *granted, *columns).select_from(joined)
    return [dict(row) for row in conn.execute(statement).mappings()]


def _wrong(row: dict[str, Any]) -> str | None:
    name, nanousd = row["top_up_id"], row["amount_cents"] * NANOUSD_PER_CENT
    granted = row["granted_to"], row["category"], row["amount_nanousd"]
    if granted != (row["org"], Category.PAID.value, nanousd):
        return f"{name}: {nanousd} came, granted {granted}"
    if row["receipts"] != 1:
        return f"{name}: it has {row['receipts']} receipts"
    if int(row["booked"]) != int(row["refunded"]) * NANOUSD_PER_CENT:
        return f"{name}: {row['refunded']} cents went back, booked {row['booked']}"
    return None
