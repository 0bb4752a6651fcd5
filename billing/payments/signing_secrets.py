"""The secret by which each seller's payments are signed."""

from __future__ import annotations

from sqlalchemy import select

from billing.db.columns import table_of
from billing.db.engine import Store
from billing.db.insert import insert_or_replace
from billing.parties import store as parties
from billing.payments.tables import PaymentSecret

SECRET = table_of(PaymentSecret)


def put_secret(store: Store, seller: str, secret: str, now_us: int) -> bool:
    """False where there is no such seller."""
    if parties.seller(store, seller) is None:
        return False
    row = {"seller": seller, "secret": secret, "changed_us": now_us}
    with store.write() as conn:
        insert_or_replace(conn, SECRET, [row], ("secret", "changed_us"))
    return True


def secret_of(store: Store, seller: str) -> str | None:
    with store.read() as conn:
        found = conn.execute(select(SECRET.c.secret).where(SECRET.c.seller == seller))
        return found.scalar_one_or_none()
