"""Models do more than text, and calls have units and tokens of sound and images.

Columns are added with a default, so no large table is written anew."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0063"
down_revision = "0071"
branch_labels = None
depends_on = None

COUNTS = ("audio_input", "image_input", "audio_output", "image_output", "units")
RECORDS = ("usage_event", "usage_correction")
COUNTING = (*RECORDS, "usage_hour", "usage_day", "usage_org_day")
TASKS_BEFORE = "task IN ('generate','embed')"
TASKS = "task IN ('generate','embed','rerank','moderate','image','speak','transcribe')"


def upgrade() -> None:
    for table in COUNTING:
        for name in COUNTS:
            op.add_column(table, _counted(name))
            op.add_column(table, _counted(f"{name}_nanousd"))
    for table in RECORDS:
        op.add_column(table, sa.Column("unit", sa.String(), nullable=False, server_default=""))
    for name in ("units", "nanousd_per_unit"):
        op.add_column("attempt", _counted(name))
    op.add_column("pool", _counted("cost_nanousd_per_unit"))
    _tasks_are(TASKS)


def downgrade() -> None:
    _tasks_are(TASKS_BEFORE)
    op.drop_column("pool", "cost_nanousd_per_unit")
    for name in ("nanousd_per_unit", "units"):
        op.drop_column("attempt", name)
    for table in RECORDS:
        op.drop_column(table, "unit")
    for table in COUNTING:
        for name in COUNTS:
            op.drop_column(table, f"{name}_nanousd")
            op.drop_column(table, name)


def _tasks_are(known: str) -> None:
    with op.batch_alter_table("model") as model:
        model.drop_constraint("task_known", type_="check")
        model.create_check_constraint("task_known", known)


def _counted(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")
