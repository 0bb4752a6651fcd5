"""What a person says of a draft: that it is held back, or that its amount is right.

A draft beyond the guards, or of which there is doubt, is parked until somebody approves it. An
approval is of an amount: a draft that grows above it is parked again. It clears no later doubt.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import insert_or_replace
from billing.invoices import store as rows
from billing.invoices.guards import Guards
from billing.invoices.tables import InvoiceReview
from billing.taxes.vat_lookup import Doubt

REVIEW = table_of(InvoiceReview)


def parked_because(
    conn: Connection,
    org: str,
    month: str,
    invoice_id: str,
    total_cents: int,
    guards: Guards,
    doubts: Iterable[Doubt] = (),
) -> tuple[str, ...]:
    review = _one(conn, invoice_id)
    reasons = []
    if review["held_because"]:
        reasons.append(f"it is held back: {review['held_because']}")
    is_approved = total_cents <= (review["approved_cents"] or 0)
    if not is_approved:
        before = rows.last_before(conn, org, month)
        if before is not None and guards.is_beyond(total_cents, before["total_cents"]):
            reasons.append(f"it is more than {guards.times} times that of {before['period']}")
    has_approval = is_approved and review["approved_cents"] is not None
    for doubt in doubts:
        if not has_approval or review["changed_us"] < doubt.since_us:
            reasons.append(doubt.because)
    return tuple(reasons)


def hold(conn: Connection, invoice_id: str, reason: str, by: str, now_us: int) -> None:
    _put(conn, invoice_id, held_because=reason, by=by, now_us=now_us)


def approve(conn: Connection, invoice_id: str, total_cents: int, by: str, now_us: int) -> None:
    """Its amount is right, and nothing holds it back."""
    _put(conn, invoice_id, approved_cents=total_cents, by=by, now_us=now_us)


def _put(
    conn: Connection,
    invoice_id: str,
    *,
    by: str,
    now_us: int,
    held_because: str = "",
    approved_cents: int | None = None,
) -> None:
    review = {"held_because": held_because, "approved_cents": approved_cents}
    row = {"invoice_id": invoice_id, **review, "changed_by": by, "changed_us": now_us}
    insert_or_replace(conn, REVIEW, [row], [name for name in row if name != "invoice_id"])


def _one(conn: Connection, invoice_id: str) -> dict[str, Any]:
    row = conn.execute(select(REVIEW).where(REVIEW.c.invoice_id == invoice_id)).mappings().first()
    return dict(row) if row else {"held_because": "", "approved_cents": None, "changed_us": 0}
