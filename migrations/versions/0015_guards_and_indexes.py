"""Days of organizations; guards of totals, counters and confirmed spools; indexes.

Sums of one organization are found instant by instant, so they need no index of their own;
transfers are listed by time.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

SAME_ACCOUNT = (
    "NEW.code <> OLD.code OR coalesce(NEW.org, '') <> coalesce(OLD.org, '') "
    "OR NEW.currency <> OLD.currency"
)
# (name, table, event, when)
GUARDS: list[tuple[str, str, str, str | None]] = [
    (
        "account_only_grows",
        "account",
        "UPDATE",
        f"{SAME_ACCOUNT} OR NEW.debits < OLD.debits OR NEW.credits < OLD.credits",
    ),
    ("account_stays", "account", "DELETE", None),
    (
        "invoice_counter_only_grows",
        "invoice_counter",
        "UPDATE",
        "NEW.series <> OLD.series OR NEW.next_number < OLD.next_number",
    ),
    ("invoice_counter_stays", "invoice_counter", "DELETE", None),
    ("spool_segment_insert_only", "spool_segment", "UPDATE", None),
    ("spool_segment_stays", "spool_segment", "DELETE", None),
]
NEVER_EMPTIED = (
    "account",
    "invoice_counter",
    "spool_segment",
    "invoice",
    "invoice_line",
    "invoice_transfer",
    "invoice_line_transfer",
)
SUMS = (("usage_hour", "hour_us"), ("usage_day", "day_us"))
ORG_DAY = ("day_us", "org", "model", "tier", "batch", "status")
SUMMED = (
    "requests",
    "input",
    "cached_input",
    "output",
    "amount_nanousd",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "request_nanousd",
    "cache_write",
    "reasoning",
    "gpu_ms",
    "cache_write_nanousd",
    "reasoning_nanousd",
    "gpu_ms_nanousd",
    "minimum_nanousd",
    "cost_nanousd",
)


def upgrade() -> None:
    for table, _ in SUMS:
        op.drop_index(f"{table}_org", table)
    op.create_index("transfer_booked", "transfer", ["booked_us"])
    op.create_table(
        "usage_org_day",
        *(sa.Column(name, _type(name), autoincrement=False, nullable=False) for name in ORG_DAY),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in SUMMED),
        sa.PrimaryKeyConstraint(*ORG_DAY),
        sqlite_with_rowid=False,
    )
    named, sums = ", ".join(ORG_DAY), ", ".join(f"sum({name})" for name in SUMMED)
    op.execute(
        f"INSERT INTO usage_org_day ({named}, {', '.join(SUMMED)}) "
        f"SELECT {named}, {sums} FROM usage_day GROUP BY {named}"
    )
    for name, table, event, when in GUARDS:
        if _is_postgresql():
            _postgresql_guard(name, table, f"BEFORE {event}", "EACH ROW", when)
        else:
            _sqlite_guard(name, table, event, when)
    for table in NEVER_EMPTIED if _is_postgresql() else ():
        _postgresql_guard(f"{table}_never_emptied", table, "BEFORE TRUNCATE", "EACH STATEMENT")


def downgrade() -> None:
    guards = [(name, table) for name, table, *_ in GUARDS]
    if _is_postgresql():
        guards += [(f"{table}_never_emptied", table) for table in NEVER_EMPTIED]
    for name, table in guards:
        op.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if _is_postgresql() else ""))
        if _is_postgresql():
            op.execute(f"DROP FUNCTION {name}()")
    op.drop_table("usage_org_day")
    op.drop_index("transfer_booked", "transfer")
    for table, at_us in SUMS:
        op.create_index(f"{table}_org", table, ["org", at_us])


def _type(name: str) -> sa.types.TypeEngine[Any]:
    return {"day_us": sa.BigInteger(), "batch": sa.Boolean()}.get(name, sa.String())


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"


def _sqlite_guard(name: str, table: str, event: str, when: str | None) -> None:
    condition = f"WHEN {when} " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )


def _postgresql_guard(
    name: str, table: str, event: str, each: str, when: str | None = None
) -> None:
    """The condition stands in the trigger: rows that may change cost no call."""
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
    )
    condition = f"WHEN ({when}) " if when else ""
    op.execute(
        f"CREATE TRIGGER {name} {event} ON {table} FOR {each} {condition}EXECUTE FUNCTION {name}()"
    )
