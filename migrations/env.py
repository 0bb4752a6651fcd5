"""Alembic's environment: the one place that knows the tables of billing and gateway alike."""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection
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
import billing.refusals.tables
import billing.spool.tables
import billing.taxes.tables
import billing.terms.tables
import billing.top_ups.tables
import billing.usage.tables
import billing.writer.tables  # noqa: F401
import gateway.catalog.tables
import gateway.limits.tables
import gateway.policies.tables
import gateway.providers.tables
import gateway.quality.tables
import gateway.tenants.tables  # noqa: F401
from billing.db.engine import open_store


def run(conn: Connection) -> None:
    context.configure(
        connection=conn,
        target_metadata=SQLModel.metadata,
        transactional_ddl=True,
        compare_type=True,
        include_object=lambda item, *_: (
            item.info.get("engine", conn.dialect.name) == conn.dialect.name
        ),
    )
    with context.begin_transaction():
        context.run_migrations()


if (given := context.config.attributes.get("connection")) is not None:
    run(given)
else:
    with open_store(os.environ["SLUICE_SQL_URL"]).write() as opened:
        run(opened)
