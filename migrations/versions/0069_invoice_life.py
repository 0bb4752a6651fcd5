"""Invoices are held back, approved and written off. A write-off never changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0069"
down_revision = "0066"
branch_labels = None
depends_on = None

TABLE = "invoice_write_off"
EVENTS = ("UPDATE", "DELETE")


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('write_off')")
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("amount_cents", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("written_by", sa.String(), nullable=False),
        sa.Column("written_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    op.create_table(
        "invoice_review",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("held_because", sa.String(), nullable=False),
        sa.Column("approved_cents", sa.BigInteger(), nullable=True),
        sa.Column("changed_by", sa.String(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    for event in EVENTS:
        _guard(f"{TABLE}_insert_only_{event.lower()}", event, "EACH ROW")
    if _is_postgresql():
        _guard(f"{TABLE}_never_emptied", "TRUNCATE", "EACH STATEMENT")


def downgrade() -> None:
    """An earlier revision knows no write-off: with any of them, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {TABLE}")):
        raise RuntimeError("write-offs cannot go back to a revision before 0069")
    op.drop_table("invoice_review")
    op.drop_table(TABLE)
    if _is_postgresql():
        for event in EVENTS:
            op.execute(f"DROP FUNCTION {TABLE}_insert_only_{event.lower()}()")
        op.execute(f"DROP FUNCTION {TABLE}_never_emptied()")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'write_off'")


def _guard(name: str, event: str, each: str) -> None:
    if not _is_postgresql():
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW "
            f"BEGIN SELECT RAISE(ABORT, '{TABLE} may not change'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{TABLE} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR {each} EXECUTE FUNCTION {name}()"
    )


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
