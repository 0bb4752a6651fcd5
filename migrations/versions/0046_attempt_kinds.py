"""Why an attempt was made. Of older ones it is concluded from the attempt before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

BEFORE = "SELECT {of} FROM attempt AS last WHERE last.rid = attempt.rid AND last.n = attempt.n - 1"


def upgrade() -> None:
    op.add_column("attempt", sa.Column("kind", sa.String(), nullable=False, server_default="first"))
    model, outcome = BEFORE.format(of="model"), BEFORE.format(of="outcome")
    op.execute(
        "UPDATE attempt SET kind = CASE"
        f" WHEN ({outcome}) = 'moved' THEN 'resume'"
        f" WHEN ({model}) <> model THEN 'fallback'"
        " ELSE 'retry' END WHERE n > 0"
    )


def downgrade() -> None:
    op.drop_column("attempt", "kind")
