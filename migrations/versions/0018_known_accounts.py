"""PostgreSQL looks at the accounts of transfers once a statement, not twice a row.

Accounts neither go nor change their code, by triggers, so what is there when a transfer is
inserted stays there; its two foreign keys cost more than all else that is done to a transfer.
SQLite keeps them: it has no triggers of statements.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

SIDES = ("debit_account", "credit_account")
NAME = "transfer_between_accounts"
FIRST_UNKNOWN = (
    "SELECT code FROM (SELECT debit_account AS code FROM added UNION SELECT credit_account "
    "FROM added) AS named WHERE NOT EXISTS "
    "(SELECT FROM account WHERE account.code = named.code) LIMIT 1"
)


def upgrade() -> None:
    if not _is_postgresql():
        return
    op.execute(
        f"CREATE FUNCTION {NAME}() RETURNS trigger LANGUAGE plpgsql AS $$ "
        f"DECLARE unknown text := ({FIRST_UNKNOWN}); BEGIN "
        f"IF unknown IS NOT NULL THEN RAISE EXCEPTION 'there is no account %', unknown "
        f"USING ERRCODE = 'foreign_key_violation'; END IF; RETURN NULL; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {NAME} AFTER INSERT ON transfer REFERENCING NEW TABLE AS added "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {NAME}()"
    )
    for side in SIDES:
        op.drop_constraint(f"transfer_{side}_fkey", "transfer", type_="foreignkey")


def downgrade() -> None:
    if not _is_postgresql():
        return
    for side in SIDES:
        op.create_foreign_key(f"transfer_{side}_fkey", "transfer", "account", [side], ["code"])
    op.execute(f"DROP TRIGGER {NAME} ON transfer")
    op.execute(f"DROP FUNCTION {NAME}()")


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
