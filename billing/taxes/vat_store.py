"""Statements on answers about VAT ids, which are inserted and never change."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, func, select

from billing.db.columns import table_of
from billing.db.engine import Store
from billing.db.insert import insert_new
from billing.parties import store as parties
from billing.taxes.tables import VatCheckRow
from billing.taxes.vat_lookup import VatCheck, can_be_looked_up, is_due

CHECK = table_of(VatCheckRow)


def keep(store: Store, check: VatCheck) -> None:
    with store.write() as conn:
        insert_new(conn, CHECK, [msgspec.to_builtins(check)])


def last(conn: Connection, vat_id: str) -> VatCheck | None:
    """The newest answer."""
    newest = select(CHECK).where(CHECK.c.vat_id == vat_id).order_by(CHECK.c.checked_us.desc())
    row = conn.execute(newest.limit(1)).mappings().first()
    return None if row is None else VatCheck(**dict(row))


def due(store: Store, now_us: int, days: int) -> list[tuple[str, str]]:
    """(VAT id of a buyer, VAT id of its seller) to ask about, by their ids."""
    newest = (
        select(CHECK.c.vat_id, func.max(CHECK.c.checked_us).label("checked_us"))
        .group_by(CHECK.c.vat_id)
        .subquery("newest")
    )
    same = (CHECK.c.vat_id == newest.c.vat_id) & (CHECK.c.checked_us == newest.c.checked_us)
    with store.read() as conn:
        named = parties.vat_ids(conn)
        rows = conn.execute(select(CHECK).join(newest, same)).mappings()
        checks = {row["vat_id"]: VatCheck(**dict(row)) for row in rows}
    return [
        (vat_id, requester)
        for vat_id, requester in sorted(named.items())
        if can_be_looked_up(vat_id) and is_due(checks.get(vat_id), now_us, days)
    ]
