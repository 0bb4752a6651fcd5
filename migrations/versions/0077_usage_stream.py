"""Usage that is told: bookings that an endpoint has yet to be told, and how far each one has it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0077"
down_revision = "0079"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "usage_place",
        sa.Column("place_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in ("ended", "corrections")),
        sa.PrimaryKeyConstraint("place_us"),
    )
    op.create_table(
        "usage_cursor",
        sa.Column("endpoint_id", sa.String(), nullable=False),
        sa.Column("place_us", sa.BigInteger(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in ("rid", "event_id")),
        sa.Column("upto_us", sa.BigInteger(), nullable=False),
        sa.Column("upto_rid", sa.String(), nullable=False),
        sa.Column("cut_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["endpoint_id"], ["webhook_endpoint.endpoint_id"]),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )


def downgrade() -> None:
    for table in ("usage_cursor", "usage_place"):
        op.drop_table(table)
