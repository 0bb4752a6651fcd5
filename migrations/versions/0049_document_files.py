"""Kept documents: forms of issued documents, and their contents by SHA-256, insert-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

TABLES = ("document_content", "document_file")


def upgrade() -> None:
    op.create_table(
        "document_content",
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("sha256"),
    )
    op.create_table(
        "document_file",
        sa.Column("document_id", sa.String(), nullable=False),
        sa.Column("form", sa.String(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["sha256"], ["document_content.sha256"]),
        sa.PrimaryKeyConstraint("document_id", "form"),
    )
    for table in TABLES:
        for event in ("UPDATE", "DELETE"):
            _forbid(table, event)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
        if op.get_bind().dialect.name == "postgresql":
            for event in ("update", "delete", "truncate"):
                op.execute(f"DROP FUNCTION {table}_insert_only_{event}()")


def _forbid(table: str, event: str) -> None:
    """What is kept never changes, and none of it goes."""
    name = f"{table}_insert_only_{event.lower()}"
    if op.get_bind().dialect.name != "postgresql":
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW "
            f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
        )
        return
    names = [(name, f"{event} ON {table} FOR EACH ROW")]
    if event == "DELETE":
        names.append((f"{table}_insert_only_truncate", f"TRUNCATE ON {table} FOR EACH STATEMENT"))
    for guard, what in names:
        op.execute(
            f"CREATE FUNCTION {guard}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
            f"EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
        )
        op.execute(f"CREATE TRIGGER {guard} BEFORE {what} EXECUTE FUNCTION {guard}()")
