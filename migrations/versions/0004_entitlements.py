"""A key may have two secrets while it is rotated; scopes say which models, tiers and capacity."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "key_secret",
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["key_id"], ["api_key.id"]),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index("key_secret_key", "key_secret", ["key_id"])
    op.create_index("key_secret_created", "key_secret", ["created_us"])
    op.execute(
        "INSERT INTO key_secret (hash, key_id, created_us) SELECT hash, id, created_us FROM api_key"
    )
    with op.batch_alter_table(
        "api_key", naming_convention={"uq": "%(table_name)s_hash_key"}
    ) as key:
        key.drop_constraint("api_key_hash_key", type_="unique")
        key.drop_column("hash")
    op.create_table(
        "entitlement",
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("models", sa.JSON(), nullable=True),
        sa.Column("tiers", sa.JSON(), nullable=True),
        sa.Column("capacity_classes", sa.JSON(), nullable=True),
        sa.PrimaryKeyConstraint("scope"),
    )


def downgrade() -> None:
    op.drop_table("entitlement")
    with op.batch_alter_table("api_key") as key:
        key.add_column(sa.Column("hash", sa.LargeBinary(), nullable=True))
    op.execute(
        "UPDATE api_key SET hash = (SELECT hash FROM key_secret WHERE key_id = api_key.id"
        " ORDER BY created_us DESC LIMIT 1)"
    )
    with op.batch_alter_table("api_key") as key:
        key.alter_column("hash", nullable=False)
        key.create_unique_constraint("api_key_hash_key", ["hash"])
    op.drop_table("key_secret")
