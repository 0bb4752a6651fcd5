"""Who bills whom with an invoice, as it was when the invoice got its number."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

TABLE = "invoice_parties"
EVENTS = ("INSERT", "UPDATE", "DELETE")
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in ("seller", "buyer", "rule")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("issued_us", "due_us")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    for event in EVENTS:
        name = f"{TABLE}_final_{event.lower()}"
        when = FINAL.format(row="NEW" if event == "INSERT" else "OLD")
        if not _is_postgresql():
            op.execute(
                f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW WHEN {when} "
                f"BEGIN SELECT RAISE(ABORT, '{TABLE} may not change'); END"
            )
            continue
        _function(name, f"IF {when} THEN RAISE", f"END IF; RETURN {_row(event)};")
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW "
            f"EXECUTE FUNCTION {name}()"
        )
    if _is_postgresql():
        name = f"{TABLE}_never_emptied"
        _function(name, "RAISE", "")
        op.execute(
            f"CREATE TRIGGER {name} BEFORE TRUNCATE ON {TABLE} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {name}()"
        )


def downgrade() -> None:
    op.drop_table(TABLE)
    if _is_postgresql():
        for end in (*(f"final_{event.lower()}" for event in EVENTS), "never_emptied"):
            op.execute(f"DROP FUNCTION {TABLE}_{end}()")


def _function(name: str, raises: str, end: str) -> None:
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"{raises} EXCEPTION '{TABLE} may not change' USING ERRCODE = '23000'; {end} END $$"
    )


def _row(event: str) -> str:
    return "OLD" if event == "DELETE" else "NEW"


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
