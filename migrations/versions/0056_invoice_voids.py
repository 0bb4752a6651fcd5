"""Invoices may be void and made again: a revision, what it replaces, and voids that never change.

A void is a row of its own, since a final invoice may not change. It keeps its number.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

TABLE = "invoice_void"
EVENTS = ("UPDATE", "DELETE")


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('invoice_void')")
    op.add_column(
        "invoice", sa.Column("revision", sa.Integer(), nullable=False, server_default="1")
    )
    op.add_column("invoice", sa.Column("replaces_id", sa.String(), nullable=True))
    op.drop_index("invoice_run", "invoice")
    op.create_index("invoice_run", "invoice", ["org", "period", "revision"], unique=True)
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("voided_by", sa.String(), nullable=False),
        sa.Column("voided_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    for event in EVENTS:
        _guard(f"{TABLE}_insert_only_{event.lower()}", event, "EACH ROW")
    if _is_postgresql():
        _guard(f"{TABLE}_never_emptied", "TRUNCATE", "EACH STATEMENT")


def downgrade() -> None:
    """An earlier revision knows one invoice of a month: with any that is void, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {TABLE}")):
        raise RuntimeError("void invoices cannot go back to a revision before 0056")
    op.drop_table(TABLE)
    if _is_postgresql():
        for event in EVENTS:
            op.execute(f"DROP FUNCTION {TABLE}_insert_only_{event.lower()}()")
        op.execute(f"DROP FUNCTION {TABLE}_never_emptied()")
    op.drop_index("invoice_run", "invoice")
    op.create_index("invoice_run", "invoice", ["org", "period"], unique=True)
    op.drop_column("invoice", "replaces_id")
    op.drop_column("invoice", "revision")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'invoice_void'")


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
