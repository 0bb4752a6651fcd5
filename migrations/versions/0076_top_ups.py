"""Top-ups: money that became paid credit and a receipt, and what was given back of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0076"
down_revision = "0078"
branch_labels = None
depends_on = None

TABLES = ("top_up", "top_up_refund")


def upgrade() -> None:
    op.create_table(
        "top_up",
        *(_text(name) for name in ("top_up_id", "org", "external_id", "source")),
        _whole("amount_cents"),
        _text("currency"),
        _whole("received_us"),
        *(_text(name) for name in ("note", "series")),
        sa.Column("number", sa.Integer(), nullable=False),
        _text("created_by"),
        _whole("created_us"),
        sa.CheckConstraint("amount_cents > 0", name="top_up_positive"),
        sa.ForeignKeyConstraint(["top_up_id"], ["credit_grant.grant_id"]),
        sa.PrimaryKeyConstraint("top_up_id"),
    )
    op.create_index("top_up_org", "top_up", ["org", "created_us"])
    op.create_index("top_up_number", "top_up", ["series", "number"], unique=True)
    op.create_table(
        "top_up_refund",
        _text("top_up_id"),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        _whole("amount_cents"),
        *(_text(name) for name in ("external_id", "reason", "created_by")),
        _whole("created_us"),
        sa.CheckConstraint("amount_cents > 0", name="top_up_refund_positive"),
        sa.ForeignKeyConstraint(["top_up_id"], ["top_up.top_up_id"]),
        sa.PrimaryKeyConstraint("top_up_id", "n"),
    )
    op.create_index(
        "top_up_refund_name", "top_up_refund", ["top_up_id", "external_id"], unique=True
    )
    forbid_changes(*TABLES)


def downgrade() -> None:
    """Receipts have numbers that stay: with any of them this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM top_up")):
        raise RuntimeError("top-ups cannot go back to a revision before 0076")
    for table in reversed(TABLES):
        op.drop_table(table)
    drop_functions_of_changes(*TABLES)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
