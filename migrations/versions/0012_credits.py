"""Credits: grants with an account each, their voiding, where each organization stands with them,
and what organizations may owe. Transfers and invoice lines learn the words for it, and transfers
those for the cost of goods."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KINDS = ("charge", "reversal", "invoice", "rounding")
MORE_KINDS = ("grant", "burn", "breakage", "void", "cost", "unallocated")
LINES = ("usage", "adjustment", "rounding")
MORE_LINES = ("credit",)

# (name, table, event, when)
Guard = tuple[str, str, str, str | None]
FINAL = "(SELECT status FROM invoice WHERE invoice_id = {row}.invoice_id) = 'finalised'"
OF_TRANSFERS: list[Guard] = [
    ("transfer_insert_only", "transfer", "UPDATE", None),
    ("transfer_insert_only", "transfer", "DELETE", None),
]
OF_LINES: list[Guard] = [
    (
        "invoice_line_final",
        "invoice_line",
        event,
        FINAL.format(row="NEW" if event == "INSERT" else "OLD"),
    )
    for event in ("INSERT", "UPDATE", "DELETE")
]
OF_CREDITS: list[Guard] = [
    *(
        (f"{table}_insert_only", table, event, None)
        for table in ("credit_grant", "credit_void")
        for event in ("UPDATE", "DELETE")
    ),
    (
        "account_of_grant_covered",
        "account",
        "UPDATE",
        "NEW.code LIKE 'org:%:grant:%' AND NEW.debits > NEW.credits",
    ),
]


def upgrade() -> None:
    _say(KINDS + MORE_KINDS, LINES + MORE_LINES, is_up=True)
    op.create_table(
        "credit_grant",
        sa.Column("grant_id", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("category", sa.String(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column("effective_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.Column("models", sa.JSON(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.CheckConstraint("category IN ('paid','promotional')", name="category_known"),
        sa.CheckConstraint("amount_nanousd > 0", name="grant_positive"),
        sa.CheckConstraint("priority >= 0 AND priority <= 100", name="priority_bounded"),
        sa.CheckConstraint("expires_us > effective_us", name="ends_after_it_begins"),
        sa.PrimaryKeyConstraint("grant_id"),
    )
    op.create_index("credit_grant_org", "credit_grant", ["org", "created_us"])
    op.create_table(
        "credit_void",
        sa.Column("grant_id", sa.String(), nullable=False),
        sa.Column("voided_us", sa.BigInteger(), nullable=False),
        sa.Column("voided_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["grant_id"], ["credit_grant.grant_id"]),
        sa.PrimaryKeyConstraint("grant_id"),
    )
    op.create_table(
        "credit_standing",
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("cleared_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("moved_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("org"),
    )
    op.create_index("credit_standing_moved", "credit_standing", ["moved_us"])
    _guard(OF_CREDITS)
    with op.batch_alter_table("organization") as organization:
        organization.add_column(
            sa.Column("settlement_mode", sa.String(), nullable=False, server_default="postpaid")
        )
        organization.add_column(sa.Column("credit_limit_nanousd", sa.BigInteger(), nullable=True))
        organization.create_check_constraint(
            "settlement_mode_known", "settlement_mode IN ('postpaid','prepaid')"
        )
        organization.create_check_constraint(
            "credit_limit_not_negative", "credit_limit_nanousd >= 0"
        )


def downgrade() -> None:
    """An earlier revision has no words for what credits have moved: with any, this fails."""
    with op.batch_alter_table("organization") as organization:
        organization.drop_constraint("settlement_mode_known", type_="check")
        organization.drop_constraint("credit_limit_not_negative", type_="check")
        organization.drop_column("credit_limit_nanousd")
        organization.drop_column("settlement_mode")
    _drop_trigger("account_of_grant_covered_update", "account")
    for table in ("credit_standing", "credit_void", "credit_grant"):
        op.drop_table(table)
    _say(KINDS, LINES, is_up=False)


def _say(kinds: Sequence[str], lines: Sequence[str], *, is_up: bool) -> None:
    """Let transfers and lines be of these kinds."""
    if op.get_bind().dialect.name == "postgresql":
        for table, named in (("transfer", kinds), ("invoice_line", lines)):
            op.drop_constraint("kind_known", table, type_="check")
            op.create_check_constraint("kind_known", table, _among(named))
        if is_up:
            op.add_column("invoice_line", _grant_of_line())
        else:
            op.drop_column("invoice_line", "grant_id")
        return
    _copy_transfers(kinds)
    _copy_lines(lines, is_up=is_up)


def _among(words: Sequence[str]) -> str:
    quoted = ",".join(f"'{word}'" for word in words)
    return f"kind IN ({quoted})"


def _grant_of_line() -> sa.Column[str]:
    return sa.Column("grant_id", sa.String(), nullable=False, server_default="")


def _copy_transfers(kinds: Sequence[str]) -> None:
    """SQLite changes a CHECK only with its table."""
    op.create_table(
        "transfer_new",
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
        sa.CheckConstraint(_among(kinds), name="kind_known"),
        sa.CheckConstraint("amount_nanousd > 0", name="amount_positive"),
        sa.CheckConstraint("debit_account <> credit_account", name="two_accounts"),
        sa.ForeignKeyConstraint(["credit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["debit_account"], ["account.code"]),
        sa.ForeignKeyConstraint(["reverses_id"], ["transfer.transfer_id"]),
        sa.PrimaryKeyConstraint("transfer_id"),
        sa.UniqueConstraint("reverses_id"),
    )
    _take_the_place_of("transfer", "*")
    op.create_index("transfer_org_booked", "transfer", ["org", "booked_us"])
    op.create_index("transfer_rid", "transfer", ["rid"])
    _guard(OF_TRANSFERS)


def _copy_lines(lines: Sequence[str], *, is_up: bool) -> None:
    names = ("project", "model", "tier", "component", "price_version")
    numbers = ("quantity", "unit_price_nanousd_per_mtok", "amount_nanousd")
    times = ("service_start_us", "service_end_us")
    op.create_table(
        "invoice_line_new",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in names),
        sa.Column("batch", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in (*numbers, *times)),
        *([_grant_of_line()] if is_up else []),
        sa.CheckConstraint(_among(lines), name="kind_known"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "seq"),
    )
    _take_the_place_of(
        "invoice_line", ", ".join(("invoice_id", "seq", "kind", *names, "batch", *numbers, *times))
    )
    _guard(OF_LINES)


def _take_the_place_of(table: str, columns: str) -> None:
    """The rows of a table move into its new form; its indexes and guards go with the old one."""
    into = "" if columns == "*" else f" ({columns})"
    op.execute(f"INSERT INTO {table}_new{into} SELECT {columns} FROM {table}")
    op.drop_table(table)
    op.rename_table(f"{table}_new", table)


def _guard(guards: Sequence[Guard]) -> None:
    create = _postgresql_guard if op.get_bind().dialect.name == "postgresql" else _sqlite_guard
    for name, table, event, when in guards:
        create(f"{name}_{event.lower()}", table, event, when)


def _sqlite_guard(name: str, table: str, event: str, when: str | None) -> None:
    condition = f"WHEN {when} " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )


def _postgresql_guard(name: str, table: str, event: str, when: str | None) -> None:
    op.execute(
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
    )
    condition = f"WHEN ({when}) " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW {condition}"
        f"EXECUTE FUNCTION {name}()"
    )
    if when is None and event == "DELETE":
        op.execute(
            f"CREATE TRIGGER {name}_all BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {name}()"
        )


def _drop_trigger(name: str, table: str) -> None:
    of_table = f" ON {table}" if op.get_bind().dialect.name == "postgresql" else ""
    op.execute(f"DROP TRIGGER {name}{of_table}")
