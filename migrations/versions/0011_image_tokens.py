"""A model may take images: how many tokens of the prompt one may cost at most."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("model") as model:
        model.add_column(sa.Column("image_tokens", sa.Integer(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("model") as model:
        model.drop_column("image_tokens")
