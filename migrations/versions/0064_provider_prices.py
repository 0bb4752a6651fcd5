"""What providers charge us: dated lists, which never change once they are approved."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0064"
down_revision = "0061"
branch_labels = None
depends_on = None

TABLE = "provider_price_list"
EVENTS = ("UPDATE", "DELETE")


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("starts_us", sa.BigInteger(), nullable=False),
        sa.Column("rates", sa.JSON(), nullable=False),
        sa.Column("comment", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("approved_us", sa.BigInteger(), nullable=True),
        sa.Column("approved_by", sa.String(), nullable=True),
        sa.CheckConstraint(
            "(approved_us IS NULL) = (approved_by IS NULL)", name="approved_by_someone"
        ),
        sa.PrimaryKeyConstraint("provider", "version"),
    )
    for event in EVENTS:
        _guard(f"{TABLE}_approved_{event.lower()}", event)


def downgrade() -> None:
    op.drop_table(TABLE)
    if _is_postgresql():
        for event in EVENTS:
            op.execute(f"DROP FUNCTION {TABLE}_approved_{event.lower()}()")


def _guard(name: str, event: str) -> None:
    when = "OLD.approved_us IS NOT NULL"
    if not _is_postgresql():
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW WHEN {when} "
            f"BEGIN SELECT RAISE(ABORT, '{TABLE} may not change'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{TABLE} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW WHEN ({when}) "
        f"EXECUTE FUNCTION {name}()"
    )


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
