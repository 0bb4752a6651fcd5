"""Taxes of invoices: frozen with the number, and booked as transfers of a kind of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0060"
down_revision = "0057"
branch_labels = None
depends_on = None

TABLE = "invoice_tax"
EVENTS = ("INSERT", "UPDATE", "DELETE")
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('tax')")
    op.add_column(
        "invoice", sa.Column("tax_cents", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("invoice_line", sa.Column("tax_place", sa.Integer(), nullable=True))
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("category", sa.String(), nullable=False),
        sa.Column("rate_ppm", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("reason_code", "note", "account")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("base_cents", "tax_cents")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "place"),
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
    """An earlier revision knows no tax: with any that was booked, this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM transfer WHERE kind = 'tax'")):
        raise RuntimeError("taxes that were booked cannot go back to a revision before 0060")
    op.drop_table(TABLE)
    if _is_postgresql():
        for end in (*(f"final_{event.lower()}" for event in EVENTS), "never_emptied"):
            op.execute(f"DROP FUNCTION {TABLE}_{end}()")
    op.drop_column("invoice_line", "tax_place")
    op.drop_column("invoice", "tax_cents")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'tax'")


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
