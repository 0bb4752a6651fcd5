"""The cost of goods: what each call and attempt cost us, what replicas' lives were reported to be,
and what capacity came to by the hour. Of calls before it no cost is known, and none is guessed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COSTING = ("usage_event", "usage_correction", "usage_hour", "usage_day")
OF_ATTEMPTS = (
    "cache_write",
    "reasoning",
    "busy_us",
    "nanousd_per_s",
    "input_nanousd_per_mtok",
    "output_nanousd_per_mtok",
    "cost_nanousd",
    "bought_nanousd",
)
SUMS = (
    "cold_start_nanousd",
    "busy_nanousd",
    "idle_nanousd",
    "wasted_nanousd",
    "life_us",
    "cold_start_us",
    "busy_us",
)


def upgrade() -> None:
    for table in COSTING:
        op.add_column(table, _counted("cost_nanousd"))
    for name in OF_ATTEMPTS:
        op.add_column("attempt", _counted(name))
    op.add_column("attempt", sa.Column("model", sa.String(), nullable=False, server_default=""))
    op.add_column(
        "attempt", sa.Column("served", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.create_table(
        "life_report",
        sa.Column("replica", sa.String(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("nanousd_per_s", sa.BigInteger(), nullable=False),
        sa.Column("started_us", sa.BigInteger(), nullable=False),
        sa.Column("ready_us", sa.BigInteger(), nullable=True),
        sa.Column("busy_us", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.CheckConstraint("until_us >= started_us AND busy_us >= 0", name="life_goes_forward"),
        sa.CheckConstraint("nanousd_per_s >= 0", name="price_of_life"),
        sa.PrimaryKeyConstraint("replica", "until_us"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "capacity_hour",
        sa.Column("hour_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in SUMS),
        sa.PrimaryKeyConstraint("hour_us", "pool", "model"),
        sqlite_with_rowid=False,
    )
    for event in ("UPDATE", "DELETE"):
        _forbid(event)


def downgrade() -> None:
    op.drop_table("capacity_hour")
    op.drop_table("life_report")
    if op.get_bind().dialect.name == "postgresql":
        for event in ("update", "delete", "truncate"):
            op.execute(f"DROP FUNCTION life_report_insert_only_{event}()")
    for name in ("served", "model", *OF_ATTEMPTS):
        op.drop_column("attempt", name)
    for table in COSTING:
        op.drop_column(table, "cost_nanousd")


def _counted(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")


def _forbid(event: str) -> None:
    """A report never changes, and none goes."""
    name = f"life_report_insert_only_{event.lower()}"
    if op.get_bind().dialect.name != "postgresql":
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON life_report FOR EACH ROW "
            "BEGIN SELECT RAISE(ABORT, 'life_report may not change'); END"
        )
        return
    names = [(name, f"{event} ON life_report FOR EACH ROW")]
    if event == "DELETE":
        emptied = "life_report_insert_only_truncate"
        names.append((emptied, "TRUNCATE ON life_report FOR EACH STATEMENT"))
    for guard, what in names:
        op.execute(
            f"CREATE FUNCTION {guard}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
            "EXCEPTION 'life_report may not change' USING ERRCODE = '23000'; END $$"
        )
        op.execute(f"CREATE TRIGGER {guard} BEFORE {what} EXECUTE FUNCTION {guard}()")
