"""Payments, and which part of one went where. Both never change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0066"
down_revision = "0060"
branch_labels = None
depends_on = None

KINDS = ("payment", "payment_applied", "payment_reversed", "refund")
TABLES = ("payment", "payment_part")
EVENTS = ("UPDATE", "DELETE")


def upgrade() -> None:
    named = ", ".join(f"('{kind}')" for kind in KINDS)
    op.execute(f"INSERT INTO transfer_kind (kind) VALUES {named}")
    op.create_table(
        "payment",
        *(_text(name) for name in ("payment_id", "org", "external_id", "source")),
        sa.Column("invoice_id", sa.String(), nullable=True),
        _whole("amount_cents"),
        _text("currency"),
        _whole("received_us"),
        *(_text(name) for name in ("note", "created_by")),
        _whole("created_us"),
        sa.CheckConstraint("amount_cents > 0", name="payment_positive"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("payment_id"),
    )
    op.create_index("payment_org", "payment", ["org"])
    op.create_table(
        "payment_part",
        _text("payment_id"),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        _text("kind"),
        sa.Column("invoice_id", sa.String(), nullable=True),
        _whole("amount_cents"),
        *(_text(name) for name in ("external_id", "reason", "created_by")),
        _whole("created_us"),
        sa.CheckConstraint("kind IN ('invoice','refund','reversal')", name="part_known"),
        sa.CheckConstraint("(kind = 'invoice') = (invoice_id IS NOT NULL)", name="part_of_invoice"),
        sa.CheckConstraint("amount_cents <> 0", name="part_moves"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["payment_id"], ["payment.payment_id"]),
        sa.PrimaryKeyConstraint("payment_id", "n"),
    )
    op.create_index("payment_part_invoice", "payment_part", ["invoice_id"])
    for table in TABLES:
        for event in EVENTS:
            _guard(table, f"insert_only_{event.lower()}", event, "EACH ROW")
        if _is_postgresql():
            _guard(table, "never_emptied", "TRUNCATE", "EACH STATEMENT")


def downgrade() -> None:
    """Payments have transfers, which stay: with any of them this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM payment")):
        raise RuntimeError("payments cannot go back to a revision before 0066")
    for table in reversed(TABLES):
        op.drop_table(table)
        if _is_postgresql():
            for end in (*(f"insert_only_{event.lower()}" for event in EVENTS), "never_emptied"):
                op.execute(f"DROP FUNCTION {table}_{end}()")
    named = ", ".join(f"'{kind}'" for kind in KINDS)
    op.execute(f"DELETE FROM transfer_kind WHERE kind IN ({named})")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _guard(table: str, end: str, event: str, each: str) -> None:
    name = f"{table}_{end}"
    if not _is_postgresql():
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW "
            f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR {each} EXECUTE FUNCTION {name}()"
    )


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
