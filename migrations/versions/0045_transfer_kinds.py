"""The kinds of transfers and of invoice lines are rows, so a new word rebuilds no table.

The largest table of SQLite is copied here for the last time. PostgreSQL looks at the kinds of
transfers once a statement, as it does at their accounts.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

KINDS = (
    *("charge", "reversal", "invoice", "rounding", "grant", "burn", "breakage", "void"),
    *("cost", "unallocated"),
)
LINES = ("usage", "adjustment", "credit", "rounding")
TABLES = (("transfer", KINDS), ("invoice_line", LINES))
NAME = "transfer_of_known_kind"
FIRST_UNKNOWN = (
    "SELECT kind FROM (SELECT DISTINCT kind FROM added) AS named WHERE NOT EXISTS "
    "(SELECT FROM transfer_kind WHERE transfer_kind.kind = named.kind) LIMIT 1"
)
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"


def upgrade() -> None:
    for table, kinds in TABLES:
        named = op.create_table(
            f"{table}_kind",
            sa.Column("kind", sa.String(), nullable=False),
            sa.PrimaryKeyConstraint("kind"),
        )
        op.bulk_insert(named, [{"kind": kind} for kind in kinds])
    if not _is_postgresql():
        _copy_transfers(_refers("transfer"))
        _copy_lines(_refers("invoice_line"))
        return
    for table, _ in TABLES:
        op.drop_constraint("kind_known", table, type_="check")
    op.create_foreign_key(
        "invoice_line_kind_fkey", "invoice_line", "invoice_line_kind", ["kind"], ["kind"]
    )
    op.execute(
        f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"DECLARE unknown text := ({FIRST_UNKNOWN}); BEGIN "
        f"IF unknown IS NOT NULL THEN RAISE EXCEPTION 'there is no kind of transfer %', unknown "
        f"USING ERRCODE = 'foreign_key_violation'; END IF; RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {NAME} AFTER INSERT ON transfer REFERENCING NEW TABLE AS added "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {NAME}()"
    )


def downgrade() -> None:
    if _is_postgresql():
        op.execute(f"DROP TRIGGER {NAME} ON transfer")
        op.execute(f"DROP FUNCTION {NAME}()")
        op.drop_constraint("invoice_line_kind_fkey", "invoice_line", type_="foreignkey")
        for table, kinds in TABLES:
            op.create_check_constraint("kind_known", table, _among(kinds))
    else:
        _copy_transfers(sa.CheckConstraint(_among(KINDS), name="kind_known"))
        _copy_lines(sa.CheckConstraint(_among(LINES), name="kind_known"))
    for table, _ in TABLES:
        op.drop_table(f"{table}_kind")


def _refers(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["kind"], [f"{table}_kind.kind"])


def _among(words: tuple[str, ...]) -> str:
    quoted = ",".join(f"'{word}'" for word in words)
    return f"kind IN ({quoted})"


def _copy_transfers(of_kind: sa.Constraint) -> None:
    op.create_table(
        "transfer_new",
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("transfer_id", "kind", "debit_account", "credit_account")
        ),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("rid", sa.String(), nullable=True),
        sa.Column("reverses_id", sa.String(), nullable=True),
        sa.Column("booked_us", sa.BigInteger(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        of_kind,
        sa.CheckConstraint("amount_nanousd > 0", name="amount_positive"),
        sa.CheckConstraint("debit_account <> credit_account", name="two_accounts"),
        sa.ForeignKeyConstraint(["credit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["debit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["reverses_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("transfer_id"),
        sa.UniqueConstraint("reverses_id"),
    )
    _take_the_place_of("transfer")
    op.create_index("transfer_org_booked", "transfer", ["org", "booked_us"])
    op.create_index("transfer_booked", "transfer", ["booked_us"])
    op.create_index("transfer_rid", "transfer", ["rid"])
    for event in ("UPDATE", "DELETE"):
        _guard(f"transfer_insert_only_{event.lower()}", "transfer", event)


def _copy_lines(of_kind: sa.Constraint) -> None:
    texts = ("kind", "project", "model", "tier", "component", "price_version")
    numbers = ("quantity", "unit_price_nanousd_per_mtok", "amount_nanousd")
    times = ("service_start_us", "service_end_us")
    op.create_table(
        "invoice_line_new",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in texts),
        sa.Column("batch", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*numbers, *times)),
        sa.Column("grant_id", sa.String(), nullable=False, server_default=""),
        sa.Column("is_simulated", sa.Boolean(), nullable=False, server_default=sa.false()),
        of_kind,
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "seq"),
    )
    _take_the_place_of("invoice_line")
    for event in ("INSERT", "UPDATE", "DELETE"):
        when = FINAL.format(row="NEW" if event == "INSERT" else "OLD")
        _guard(f"invoice_line_final_{event.lower()}", "invoice_line", event, when)


def _take_the_place_of(table: str) -> None:
    """The rows of a table move into its new form. Its indexes and guards go with the old one."""
    columns = [c["name"] for c in sa.inspect(op.get_bind()).get_columns(f"{table}_new")]
    named = ", ".join(columns)
    op.execute(f"INSERT INTO {table}_new ({named}) SELECT {named} FROM {table}")
    op.drop_table(table)
    op.rename_table(f"{table}_new", table)


def _guard(name: str, table: str, event: str, when: str | None = None) -> None:
    condition = f"WHEN {when} " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
