"""The ledger: accounts, transfers, usage, prices and invoices, insert-only by triggers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "invoice_counter",
    "invoice_line_transfer",
    "invoice_transfer",
    "invoice_line",
    "invoice",
    "price_rate",
    "price_version",
    "spool_segment",
    "watermark",
    "dead_letter",
    "open_hold",
    "attempt",
    "call_record",
    "usage_correction",
    "usage_event",
    "transfer",
    "account",
)


# Rows of these tables never change.
INSERT_ONLY = ("transfer", "usage_event", "usage_correction", "price_rate")
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"
ACTIVE = "(SELECT status FROM price_version WHERE version_id = NEW.version_id) = 'active'"

# (name, table, event, when): a price version is frozen once active, an invoice once finalised.
GUARDS: list[tuple[str, str, str, str | None]] = [
    *((f"{table}_insert_only", table, "UPDATE", None) for table in INSERT_ONLY),
    *((f"{table}_insert_only", table, "DELETE", None) for table in INSERT_ONLY),
    ("price_rate_frozen", "price_rate", "INSERT", ACTIVE),
    ("price_version_frozen", "price_version", "UPDATE", "OLD.status = 'active'"),
    ("price_version_frozen", "price_version", "DELETE", "OLD.status = 'active'"),
    ("invoice_final", "invoice", "UPDATE", "OLD.status = 'finalised'"),
    ("invoice_final", "invoice", "DELETE", "OLD.status = 'finalised'"),
    *(
        (f"{table}_final", table, event, FINAL.format(row="NEW" if event == "INSERT" else "OLD"))
        for table in ("invoice_line", "invoice_transfer", "invoice_line_transfer")
        for event in ("INSERT", "UPDATE", "DELETE")
    ),
]


def create_guards() -> None:
    create = _postgresql_guard if op.get_bind().dialect.name == "postgresql" else _sqlite_guard
    for name, table, event, when in GUARDS:
        create(f"{name}_{event.lower()}", table, event, when)


def _sqlite_guard(name: str, table: str, event: str, when: str | None) -> None:
    condition = f"WHEN {when} " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )


def _postgresql_guard(name: str, table: str, event: str, when: str | None) -> None:
    """A WHEN clause may hold no subquery there, so the function asks."""
    condition = f"IF {when} THEN RAISE" if when else "RAISE"
    end = " END IF;" if when else ""
    op.execute(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"{condition} EXCEPTION '{table} may not change' USING ERRCODE = '23000';{end} "
        f"RETURN {'OLD' if event == 'DELETE' else 'NEW'}; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW EXECUTE FUNCTION {name}()"
    )
    if when is None:
        op.execute(
            f"CREATE TRIGGER {name}_all BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {name}()"
        )


def usage_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("gateway", sa.String(), nullable=False),
        sa.Column("model_requested", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("variant", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("capacity_class", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("finish_reason", sa.String(), nullable=True),
        sa.Column("error_code", sa.String(), nullable=True),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("input", sa.BigInteger(), nullable=False),
        sa.Column("cached_input", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.BigInteger(), nullable=False),
        sa.Column("price_version", sa.String(), nullable=False),
        sa.Column("input_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("cached_input_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("output_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("request_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("month", sa.String(), nullable=False),
        sa.Column("admitted_us", sa.BigInteger(), nullable=False),
        sa.Column("first_token_us", sa.BigInteger(), nullable=True),
        sa.Column("ended_us", sa.BigInteger(), nullable=False),
        sa.Column("ingested_us", sa.BigInteger(), nullable=False),
        sa.Column("payload_sha", sa.LargeBinary(), nullable=False),
    ]


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=True),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("debits", sa.BigInteger(), nullable=False),
        sa.Column("credits", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("debits >= 0 AND credits >= 0", name="totals_positive"),
        sa.PrimaryKeyConstraint("code"),
    )
    op.create_table(
        "transfer",
        sa.Column("transfer_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("debit_account", sa.String(), nullable=False),
        sa.Column("credit_account", sa.String(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("rid", sa.String(), nullable=True),
        sa.Column("reverses_id", sa.String(), nullable=True),
        sa.Column("booked_us", sa.BigInteger(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('charge','reversal','invoice','rounding')", name="kind_known"),
        sa.CheckConstraint("amount_nanousd > 0", name="amount_positive"),
        sa.CheckConstraint("debit_account <> credit_account", name="two_accounts"),
        sa.ForeignKeyConstraint(["credit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["debit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["reverses_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("transfer_id"),
        sa.UniqueConstraint("reverses_id"),
    )
    op.create_index("transfer_org_booked", "transfer", ["org", "booked_us"])
    op.create_index("transfer_rid", "transfer", ["rid"])
    op.create_table(
        "usage_event",
        *usage_columns(),
        sa.Column("rid", sa.String(), nullable=False),
        sa.CheckConstraint("source IN ('exact','estimated')", name="source_known"),
        sa.CheckConstraint(
            "status IN ('answered','cancelled','failed','refused')", name="status_known"
        ),
        sa.CheckConstraint("input >= 0 AND cached_input >= 0 AND output >= 0", name="counts"),
        sa.PrimaryKeyConstraint("rid"),
    )
    op.create_index("usage_event_ended", "usage_event", ["ended_us"])
    op.create_index("usage_event_key_ended", "usage_event", ["key", "ended_us"])
    op.create_index("usage_event_model_ended", "usage_event", ["model", "ended_us"])
    op.create_index("usage_event_org_ended", "usage_event", ["org", "ended_us"])
    op.create_table(
        "usage_correction",
        *usage_columns(),
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.CheckConstraint("source IN ('exact','estimated')", name="source_known"),
        sa.CheckConstraint("n >= 2", name="follows_the_event"),
        sa.ForeignKeyConstraint(["rid"], ["usage_event.rid"]),
        sa.PrimaryKeyConstraint("rid", "n"),
    )
    op.create_table(
        "call_record",
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rid"),
    )
    op.create_table(
        "attempt",
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("replica", sa.String(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("input", sa.BigInteger(), nullable=False),
        sa.Column("cached_input", sa.BigInteger(), nullable=False),
        sa.Column("output", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rid", "n"),
    )
    op.create_table(
        "open_hold",
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("hold_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("month", sa.String(), nullable=False),
        sa.Column("admitted_us", sa.BigInteger(), nullable=False),
        sa.Column("opened", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("rid"),
    )
    op.create_index("open_hold_admitted", "open_hold", ["admitted_us"])
    op.create_table(
        "dead_letter",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("entry", sa.String(), nullable=False),
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("dead_letter_entry", "dead_letter", ["shard", "entry", "reason"], unique=True)
    op.create_table(
        "watermark",
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("entry", sa.String(), nullable=False),
        sa.Column("caught_up_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("shard"),
    )
    op.create_table(
        "spool_segment",
        sa.Column("gateway", sa.String(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("opened_count", sa.Integer(), nullable=False),
        sa.Column("closed_count", sa.Integer(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha", sa.LargeBinary(), nullable=False),
        sa.Column("seen_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("gateway", "seq"),
    )
    op.create_table(
        "price_version",
        sa.Column("version_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("effective_from_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.CheckConstraint(
            "(status = 'draft' AND effective_from_us IS NULL) OR "
            "(status = 'active' AND effective_from_us IS NOT NULL)",
            name="active_has_a_start",
        ),
        sa.PrimaryKeyConstraint("version_id"),
        sa.UniqueConstraint("effective_from_us"),
    )
    op.create_table(
        "price_rate",
        sa.Column("version_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("component", sa.String(), nullable=False),
        sa.Column("nanousd_per_mtok", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("nanousd_per_mtok >= 0", name="price_not_negative"),
        sa.ForeignKeyConstraint(["version_id"], ["price_version.version_id"]),
        sa.PrimaryKeyConstraint("version_id", "model", "tier", "batch", "component"),
    )
    op.create_table(
        "invoice",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("series", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("period_start_us", sa.BigInteger(), nullable=False),
        sa.Column("period_end_us", sa.BigInteger(), nullable=False),
        sa.Column("subtotal_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("rounding_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("total_cents", sa.BigInteger(), nullable=False),
        sa.Column("computed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(status = 'draft' AND number IS NULL) OR "
            "(status = 'finalised' AND number IS NOT NULL)",
            name="numbered_when_finalised",
        ),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    op.create_index("invoice_number", "invoice", ["series", "number"], unique=True)
    op.create_index("invoice_run", "invoice", ["org", "period"], unique=True)
    op.create_table(
        "invoice_line",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("component", sa.String(), nullable=False),
        sa.Column("price_version", sa.String(), nullable=False),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("unit_price_nanousd_per_mtok", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("service_start_us", sa.BigInteger(), nullable=False),
        sa.Column("service_end_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("kind IN ('usage','adjustment','rounding')", name="kind_known"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "seq"),
    )
    op.create_table(
        "invoice_transfer",
        sa.Column("transfer_id", sa.String(), nullable=False),
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("transfer_id"),
    )
    op.create_index("invoice_transfer_invoice", "invoice_transfer", ["invoice_id"])
    op.create_table(
        "invoice_line_transfer",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("transfer_id", sa.String(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["transfer_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "seq", "transfer_id"),
    )
    op.create_index("invoice_line_transfer_transfer", "invoice_line_transfer", ["transfer_id"])
    op.create_table(
        "invoice_counter",
        sa.Column("series", sa.String(), nullable=False),
        sa.Column("next_number", sa.Integer(), server_default=sa.text("1"), nullable=False),
        sa.PrimaryKeyConstraint("series"),
    )
    create_guards()


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
