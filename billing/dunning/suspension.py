"""Suspension: an organization whose invoice has had the last step is frozen until that is settled.

The freeze is that of organizations, in a status of its own: one that a person froze stays frozen,
and one that a person let go on is not suspended for the same invoice again, but by a payment that
did not hold. Whatever lowers what is due calls `lift` in its own transaction.
"""

from __future__ import annotations

from sqlalchemy import Connection, column, table, update

from billing.dunning import store as rows
from billing.dunning.steps import StepName
from billing.invoices import store as invoices
from billing.outbox import store as outbox
from billing.outbox.event import EventType, OutboxEvent

ACTIVE, SUSPENDED = "active", "suspended"
ORGANIZATION = table("organization", column("id"), column("status"))
REVISION = table("catalog_revision", column("id"), column("revision"))
"""Gateways look at it, and read anew what they keep."""


def suspend(conn: Connection, org: str, now_us: int) -> None:
    """No call of an organization that is active is taken from now on, and those that run end."""
    _turn(conn, org, ACTIVE, SUSPENDED, EventType.ORGANIZATION_SUSPENDED, now_us)


def lift(conn: Connection, org: str, now_us: int) -> None:
    """Take its calls again, if it is suspended and owes nothing for which it may be."""
    if not is_beyond_last_step(conn, org, now_us):
        _turn(conn, org, SUSPENDED, ACTIVE, EventType.ORGANIZATION_REINSTATED, now_us)


def suspend_again(conn: Connection, org: str, now_us: int) -> None:
    """After a payment did not hold."""
    if is_beyond_last_step(conn, org, now_us):
        suspend(conn, org, now_us)


def is_beyond_last_step(conn: Connection, org: str, now_us: int) -> bool:
    """Whether something is overdue of which the last step was taken."""
    overdue = [invoice["invoice_id"] for invoice in invoices.overdue(conn, now_us, org=org)]
    return any(StepName.SUSPENSION in taken for taken in rows.taken(conn, overdue).values())


def _turn(
    conn: Connection, org: str, before: str, after: str, kind: EventType, now_us: int
) -> None:
    was = (ORGANIZATION.c.id == org) & (ORGANIZATION.c.status == before)
    if conn.execute(update(ORGANIZATION).where(was).values(status=after)).rowcount:
        conn.execute(update(REVISION).values(revision=REVISION.c.revision + 1))
        data = {"id": org, "organization": org}
        outbox.tell(conn, OutboxEvent(kind, org, org, data, now_us, turn=str(now_us)))
