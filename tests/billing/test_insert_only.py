"""Rows of money never change: whoever has the database's password is refused by the database."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlmodel import SQLModel

import billing.bills.tables
import billing.budgets.tables
import billing.charges.tables
import billing.costs.tables
import billing.credit_notes.tables
import billing.credits.tables
import billing.currencies.tables
import billing.decisions.tables
import billing.documents.tables
import billing.dunning.tables
import billing.invoices.tables
import billing.ledger.tables
import billing.outbox.tables
import billing.parties.tables
import billing.payments.tables
import billing.prices.tables
import billing.recovery.tables
import billing.spool.tables
import billing.taxes.tables
import billing.top_ups.tables
import billing.usage.tables
import billing.writer.tables
from billing.bills.reconciliation import reconcile
from billing.credit_notes import store as notes
from billing.credit_notes.note import CreditedLine, CreditedPart
from billing.credits.credit import Category, Grant
from billing.credits.grants import give, void
from billing.db.engine import Store
from billing.documents import store as documents
from billing.dunning.steps import StepName
from billing.dunning.store import insert_step
from billing.invoices import store as invoices
from billing.invoices.voids import void as void_invoice
from billing.parties.store import put_profile, put_rule, put_seller
from billing.payments.paying import pay, reverse
from billing.payments.payment import Receipt
from billing.prices.book import Discount
from billing.prices.versions import put_into_force
from billing.spool import store as spools
from billing.top_ups import topping_up
from billing.types import UsageSource
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    OCTOBER,
    book,
    call,
    caught_up,
    run,
)
from tests.billing.taxes.test_tax_rule import BUYER, CONSUMERS, SELLER

FROZEN = {
    *("transfer", "closed_period", "closed_period_total"),
    "usage_event",
    "usage_correction",
    "idempotent_call",
    "price_version",
    "price_rate",
    "price_discount",
    "invoice",
    "invoice_line",
    "invoice_cut",
    "invoice_parties",
    *("invoice_tax", "invoice_tax_share"),
    "invoice_void",
    "invoice_write_off",
    *("credit_note", "credit_note_line", "credit_note_tax"),
    "credit_note_tax_share",
    "vat_check",
    "dunning_step",
    "payment",
    "payment_part",
    *("top_up", "top_up_refund"),
    "credit_grant",
    "credit_void",
    "life_report",
    "spool_segment",
    "dead_letter",
    "dead_letter_resolution",
    "document_content",
    "provider_bill",
    "provider_bill_line",
    "document_file",
}
"""Prices once they are approved, invoices once they are final, the others from the start."""
ONLY_GROW = {"account", "invoice_counter"}
SUMS = {
    "usage_hour",
    "usage_day",
    "usage_org_day",
    "usage_budget",
    "budget_spent",
    "capacity_hour",
    "bought_day",
    "charge_sum",
    "charge_month",
    "credit_standing",
}
"""Copies, which `verify` recomputes from the rows that are frozen."""
STATE = {
    *("open_hold", "watermark", "budget_alert", "credit_alert"),
    *("invoice_job", "invoice_review"),
    *("webhook_endpoint", "outbox_event", "webhook_delivery", "webhook_try"),
    *("usage_place", "usage_cursor"),
    "payment_secret",
    *("call_record", "attempt", "decision_batch", "decision_place"),
}
"""What comes and goes, and what explains: no money stands on it."""


@pytest.fixture
def store(either_store: Store) -> Store:
    """With a row in every table that is frozen or only grows."""
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US, source=UsageSource.ESTIMATED))
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US, output=99))
    book(either_store, call(either_store, "req_2", IN_OCTOBER_US, idempotency="a" * 64))
    caught_up(either_store, IN_NOVEMBER_US)
    put_seller(either_store, SELLER, 1)
    put_profile(either_store, replace(BUYER, org="org_1"), 1)
    put_rule(either_store, replace(CONSUMERS, buyer_kind="", jurisdiction="AT"), 1)
    bill = "day,model,usage_class,quantity,amount\n2026-10-01,m,input,1,1\n"
    reconcile(either_store, "acme", bill, models={}, now_us=1, by="a")
    (invoice,) = run(either_store, "2026-10")
    assert invoice.invoice["status"] == "finalised"
    receipt = Receipt("org_1", "w", 1, 1, invoice_id=invoice.invoice["invoice_id"])
    top_up = Receipt("org_1", "t", 9, 1)
    topped, _ = topping_up.top_up(either_store, top_up, by="a", now_us=IN_NOVEMBER_US)
    words = {"external_id": "r", "reason": "a", "by": "a"}
    topped_id = topped.top_up["top_up_id"]
    topping_up.refund(either_store, topped_id, 1, **words, now_us=IN_NOVEMBER_US)
    payment_id = pay(either_store, receipt, by="a", now_us=IN_NOVEMBER_US).payment["payment_id"]
    reverse(either_store, payment_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    void_invoice(
        either_store, invoice.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US
    )
    put_into_force(
        either_store, [], by="a", now_us=9, org="org_1", discounts=[Discount("", basis_points=5)]
    )
    grant = Grant(
        grant_id="grant_1",
        org="org_1",
        category=Category.PAID,
        amount_nanousd=7,
        effective_us=OCTOBER.end_us,
        created_us=OCTOBER.end_us,
    )
    give(either_store, grant, created_by="a", now_us=OCTOBER.end_us)
    void(either_store, "grant_1", voided_by="a", now_us=OCTOBER.end_us)
    with either_store.write() as conn:
        spools.insert_segment(conn, SEGMENT)
        notes.insert_note(
            conn,
            {"note_id": "crn_1", "invoice_id": invoice.invoice["invoice_id"], "org": "org_1"}
            | {"series": "CN", "number": 1, "reason": "a", "net_cents": 1, "tax_cents": 0}
            | {"created_by": "a", "created_us": 1},
            [CreditedLine(0, 0, 0, 1)],
            [CreditedPart(0, 1, (0, 0))],
        )
        insert_step(conn, invoice.invoice["invoice_id"], StepName.REMINDER, 1, 1)
        invoices.insert_write_off(conn, invoice.invoice["invoice_id"], 1, "a", "a", 1)
        documents.keep(conn, "inv_1", "pdf", b"%PDF", 1)
        conn.execute(text("INSERT INTO vat_check VALUES ('ATU1', 1, '', true, '')"))
        conn.execute(text("INSERT INTO closed_period VALUES ('2020-01', 1, 'a', 1)"))
        conn.execute(text("INSERT INTO closed_period_total VALUES ('2020-01', 0, 0)"))
        conn.execute(text(f"INSERT INTO life_report {LIFE}"))
        conn.execute(text(f"INSERT INTO dead_letter {LETTER}"))
        conn.execute(text("INSERT INTO dead_letter_resolution VALUES (1, 'booked', 'a', '', 1)"))
    return either_store


SEGMENT = {
    "gateway": "gw-1",
    "seq": 1,
    "opened_count": 1,
    "closed_count": 1,
    "size_bytes": 9,
    "sha": b"1",
    "seen_us": 1,
}
LETTER = (
    "(id, shard, entry, kind, rid, reason, detail, payload, created_us) "
    "VALUES (1, 0, '1-1', 'settled', 'req_9', 'malformed', '', '', 1)"
)
LIFE = (
    "(replica, until_us, pool, model, nanousd_per_s, started_us, busy_us, ended) "
    "VALUES ('r', 9, 'p', 'm', 1, 1, 1, FALSE)"
)


def refused(store: Store, statement: str) -> None:
    with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
        conn.execute(text(statement))


def test_row_of_money_can_be_neither_changed_nor_removed(store: Store) -> None:
    for table in sorted(FROZEN):
        with store.read() as conn:
            assert conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one(), table
        for column in SQLModel.metadata.tables[table].columns:
            refused(store, f'UPDATE {table} SET "{column.name}" = "{column.name}"')
        refused(store, f"DELETE FROM {table}")


SHRINK = (
    "UPDATE account SET debits = debits - 1 WHERE debits > 0",
    "UPDATE account SET credits = 0 WHERE credits > 0",
    "UPDATE account SET org = 'org_2' WHERE org = 'org_1'",
    "UPDATE account SET code = code || '2'",
    "UPDATE account SET currency = 'EUR'",
    "DELETE FROM account",
    "UPDATE invoice_counter SET next_number = next_number - 1",
    "DELETE FROM invoice_counter",
)


def test_totals_and_numbers_only_grow(store: Store) -> None:
    for statement in SHRINK:
        refused(store, statement)


def test_no_table_of_money_is_ever_emptied(store: Store) -> None:
    if store.engine.dialect.name == "postgresql":  # SQLite has no TRUNCATE
        for table in sorted(FROZEN | ONLY_GROW):
            refused(store, f"TRUNCATE {table} CASCADE")


def test_every_table_of_the_ledger_is_frozen_or_says_why_not() -> None:
    ours = {
        row.__tablename__
        for module in (
            billing.bills.tables,
            billing.budgets.tables,
            billing.charges.tables,
            billing.costs.tables,
            billing.credit_notes.tables,
            billing.credits.tables,
            billing.currencies.tables,
            billing.decisions.tables,
            billing.documents.tables,
            billing.dunning.tables,
            billing.invoices.tables,
            billing.ledger.tables,
            billing.outbox.tables,
            billing.parties.tables,
            billing.taxes.tables,
            billing.payments.tables,
            billing.prices.tables,
            billing.recovery.tables,
            billing.spool.tables,
            billing.top_ups.tables,
            billing.usage.tables,
            billing.writer.tables,
        )
        for row in vars(module).values()
        if isinstance(row, type) and issubclass(row, SQLModel) and hasattr(row, "__table__")
    }
    parties = {"seller", "billing_profile", "tax_rule", "exchange_rate"}
    settings = {"budget", "credit_watch", *parties}  # of people
    words = {"transfer_kind", "invoice_line_kind"}  # what migrations add to
    assert ours == FROZEN | ONLY_GROW | SUMS | STATE | settings | words
