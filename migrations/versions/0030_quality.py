"""Versions of learned quality, and when each came into force. Neither ever changes."""

from __future__ import annotations

from migrations import version_tables

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    version_tables.create("quality")


def downgrade() -> None:
    version_tables.drop("quality")
