"""Statements on what is written of one invoice beside itself, each led by an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Table, select

from billing.credit_notes import store as notes
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.dunning.tables import DunningStepRow
from billing.history.event import InvoiceRows
from billing.invoices import store as invoices
from billing.invoices.issuing import BY
from billing.outbox import store as outbox
from billing.payments.store import PART, PAYMENT

STEP = table_of(DunningStepRow)

Row = Mapping[str, Any]


def rows_of(conn: Connection, invoice: Row, number: str | None, payable_cents: int) -> InvoiceRows:
    invoice_id = invoice["invoice_id"]
    return InvoiceRows(
        *(invoice, number, payable_cents),
        review=_one(conn, invoices.REVIEW, invoice_id),
        steps=_all(conn, STEP, invoice_id),
        parts=_parts(conn, invoice_id),
        notes=notes.find(conn, invoice_id=invoice_id),
        void=_one(conn, invoices.VOID, invoice_id),
        write_off=_one(conn, invoices.WRITE_OFF, invoice_id),
        replacement=_replacement(conn, invoice),
    )


def outbox_events(conn: Connection, event_ids: Sequence[str]) -> Sequence[Row]:
    """Those of these events of the outbox that are there."""
    event = outbox.EVENT
    names = event.c.event_id, event.c.type, event.c.created_us
    statement = select(*names).where(in_list(conn, event.c.event_id, event_ids))
    return [dict(row) for row in conn.execute(statement).mappings()]


def deliveries(conn: Connection, event_ids: Sequence[str]) -> Sequence[Row]:
    """Of these events to all endpoints, each with its last try. Old ones are pruned."""
    delivery = outbox.DELIVERY
    urls = {each["endpoint_id"]: each["url"] for each in outbox.endpoints(conn)}
    statement = (
        select(delivery, outbox.EVENT.c.type)
        .join(outbox.EVENT, outbox.EVENT.c.event_id == delivery.c.event_id)
        .where(in_list(conn, delivery.c.endpoint_id, list(urls)))
        .where(in_list(conn, delivery.c.event_id, event_ids))
    )
    found = []
    for row in conn.execute(statement).mappings():
        tries = outbox.tries(conn, dict(row))
        last = tries[-1] if tries else {"status": None, "problem": ""}
        found.append({**row, **last, "url": urls[row["endpoint_id"]]})
    return found


def _one(conn: Connection, table: Table, invoice_id: str) -> Row | None:
    return next(iter(_all(conn, table, invoice_id)), None)


def _all(conn: Connection, table: Table, invoice_id: str) -> Sequence[Row]:
    statement = select(table).where(table.c.invoice_id == invoice_id)
    return [dict(row) for row in conn.execute(statement).mappings()]


def _parts(conn: Connection, invoice_id: str) -> Sequence[Row]:
    """With the external ids of their payments. Nobody has done what issuing does."""
    columns = [each for each in PART.c if each.name != "external_id"]
    statement = (
        select(*columns, PAYMENT.c.external_id)
        .join(PAYMENT, PAYMENT.c.payment_id == PART.c.payment_id)
        .where(PART.c.invoice_id == invoice_id)
    )
    found = [dict(row) for row in conn.execute(statement).mappings()]
    return [row | {"created_by": ""} if row["created_by"] == BY else row for row in found]


def _replacement(conn: Connection, invoice: Row) -> Row | None:
    """The next revision of its month, with its number."""
    for row in invoices.find(conn, invoice["org"], invoice["period"]):
        if row["replaces_id"] == invoice["invoice_id"]:
            return row | {"number": invoices.number_of(row)}
    return None
