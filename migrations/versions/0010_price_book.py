"""Prices are approved before they take effect, step with the length of the prompt, and may be an
organization's own; a call has more classes of tokens, GPU-milliseconds and a minimum."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COUNTED = (
    "cache_write",
    "reasoning",
    "gpu_ms",
    "cache_write_nanousd",
    "reasoning_nanousd",
    "gpu_ms_nanousd",
    "minimum_nanousd",
)
COUNTING = ("usage_event", "usage_correction", "usage_hour", "usage_day")

# (name, table, event, when)
Guard = tuple[str, str, str, str | None]
STATUS = "(SELECT status FROM price_version WHERE version_id = {row}.version_id)"
SAME = " AND ".join(
    f"NEW.{name} = OLD.{name}" for name in ("version_id", "org", "created_us", "created_by", "note")
)
NEXT = (
    f"({SAME} AND OLD.status = 'approved' AND NEW.status = 'active' "
    "AND NEW.approved_us = OLD.approved_us AND NEW.approved_by = OLD.approved_by)"
)
TERMS = ("price_rate", "price_discount")
GUARDS: list[Guard] = [
    *(
        (f"{table}_frozen", table, event, f"{STATUS.format(row=row)} <> 'draft'")
        for table in TERMS
        for event, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD"))
    ),
    *((f"{table}_stays", table, "UPDATE", "NEW.version_id <> OLD.version_id") for table in TERMS),
    ("price_version_begins", "price_version", "INSERT", "NEW.status <> 'draft'"),
    (
        "price_version_frozen",
        "price_version",
        "UPDATE",
        f"(OLD.status <> 'draft' AND NOT {NEXT}) OR "
        "(OLD.status = 'draft' AND (NEW.status = 'active' OR NEW.version_id <> OLD.version_id))",
    ),
    ("price_version_frozen", "price_version", "DELETE", "OLD.status <> 'draft'"),
]
ACTIVE = "(SELECT status FROM price_version WHERE version_id = NEW.version_id) = 'active'"
GUARDS_BEFORE: list[Guard] = [
    ("price_rate_insert_only", "price_rate", "UPDATE", None),
    ("price_rate_insert_only", "price_rate", "DELETE", None),
    ("price_rate_frozen", "price_rate", "INSERT", ACTIVE),
    ("price_version_frozen", "price_version", "UPDATE", "OLD.status = 'active'"),
    ("price_version_frozen", "price_version", "DELETE", "OLD.status = 'active'"),
]


def upgrade() -> None:
    for table in COUNTING:
        for name in COUNTED:
            column = sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")
            op.add_column(table, column)
    _set_aside()
    op.create_table(
        "price_version",
        sa.Column("version_id", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("effective_from_us", sa.BigInteger(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("approved_us", sa.BigInteger(), nullable=True),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.Column("activated_by", sa.String(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.CheckConstraint(
            "(status = 'draft' AND approved_us IS NULL AND effective_from_us IS NULL) OR "
            "(status = 'approved' AND approved_us IS NOT NULL AND effective_from_us IS NULL) OR "
            "(status = 'active' AND approved_us IS NOT NULL AND effective_from_us IS NOT NULL)",
            name="approved_then_active",
        ),
        sa.PrimaryKeyConstraint("version_id"),
        sa.UniqueConstraint("org", "effective_from_us", name="price_version_begins_once"),
    )
    op.create_table(
        "price_rate",
        *_rate_columns(),
        sa.Column("prompt_from", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("nanousd_per_mtok", sa.BigInteger(), nullable=False),
        sa.Column("units_max", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("nanousd_per_mtok >= 0 AND prompt_from >= 0", name="price_not_negative"),
        sa.CheckConstraint(
            "(component = 'gpu_ms') = (units_max IS NOT NULL)", name="gpu_ms_bounded"
        ),
        sa.ForeignKeyConstraint(["version_id"], ["price_version.version_id"]),
        sa.PrimaryKeyConstraint("version_id", "model", "tier", "batch", "component", "prompt_from"),
    )
    op.create_table(
        "price_discount",
        sa.Column("version_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("basis_points", sa.Integer(), nullable=False),
        sa.CheckConstraint("basis_points >= 0 AND basis_points <= 10000", name="part_of_the_price"),
        sa.ForeignKeyConstraint(["version_id"], ["price_version.version_id"]),
        sa.PrimaryKeyConstraint("version_id", "model"),
    )
    names = "version_id, status, effective_from_us, created_us, created_by, note"
    active = "CASE status WHEN 'active' THEN {} END"
    approval = ", ".join(active.format(name) for name in ("created_us", *["created_by"] * 2))
    op.execute(
        f"INSERT INTO price_version ({names}, org, approved_us, approved_by, activated_by) "
        f"SELECT {names}, '', {approval} FROM price_version_before"
    )
    _copy_rates("prompt_from, ", "0, ")
    _forget()
    _create_guards(GUARDS)


def downgrade() -> None:
    """What an earlier revision cannot say is lost: agreements, discounts, steps and components."""
    op.drop_table("price_discount")
    _set_aside()
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
        *_rate_columns(),
        sa.Column("nanousd_per_mtok", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("nanousd_per_mtok >= 0", name="price_not_negative"),
        sa.ForeignKeyConstraint(["version_id"], ["price_version.version_id"]),
        sa.PrimaryKeyConstraint("version_id", "model", "tier", "batch", "component"),
    )
    names = "effective_from_us, created_us, created_by, note"
    op.execute(
        f"INSERT INTO price_version (version_id, status, {names}) SELECT version_id, "
        f"CASE status WHEN 'approved' THEN 'draft' ELSE status END, {names} "
        "FROM price_version_before WHERE org = ''"
    )
    _copy_rates(
        where="WHERE prompt_from = 0 AND component IN ('input','cached_input','output','request') "
        "AND version_id IN (SELECT version_id FROM price_version)"
    )
    _forget()
    _create_guards(GUARDS_BEFORE)
    for table in COUNTING:
        for name in COUNTED:
            op.drop_column(table, name)


def _rate_columns() -> Sequence[sa.Column[str] | sa.Column[bool]]:
    return [
        sa.Column("version_id", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("batch", sa.Boolean(), nullable=False),
        sa.Column("component", sa.String(), nullable=False),
    ]


def _set_aside() -> None:
    """Copies without a guard, in place of the tables: those guards go with them."""
    for table in ("price_rate", "price_version"):
        op.execute(f"CREATE TABLE {table}_before AS SELECT * FROM {table}")
    for table in ("price_rate", "price_version"):
        op.drop_table(table)


def _copy_rates(more: str = "", given: str = "", where: str = "") -> None:
    names = "version_id, model, tier, batch, component"
    op.execute(
        f"INSERT INTO price_rate ({names}, {more}nanousd_per_mtok) "
        f"SELECT {names}, {given}nanousd_per_mtok FROM price_rate_before {where}"
    )


def _forget() -> None:
    for table in ("price_rate", "price_version"):
        op.drop_table(f"{table}_before")


def _create_guards(guards: Sequence[Guard]) -> None:
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
    """A WHEN clause may hold no subquery there, so the function asks. Nothing is ever emptied."""
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
    if event == "DELETE":
        op.execute(
            f"CREATE OR REPLACE FUNCTION {table}_never_emptied() RETURNS trigger LANGUAGE plpgsql "
            f"AS $$ BEGIN RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
        )
        op.execute(
            f"CREATE TRIGGER {table}_never_emptied BEFORE TRUNCATE ON {table} FOR EACH STATEMENT "
            f"EXECUTE FUNCTION {table}_never_emptied()"
        )
