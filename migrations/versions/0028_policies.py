"""Versions of the routing policy, and when each came into force. Neither ever changes."""

from __future__ import annotations

from migrations import version_tables

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    version_tables.create("policy")


def downgrade() -> None:
    version_tables.drop("policy")
