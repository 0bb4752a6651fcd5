"""Statements on versions of the price book: their rates and discounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from billing.db.columns import table_of
from billing.prices.book import Discount, PriceRate
from billing.prices.tables import PriceDiscountRow, PriceRateRow, PriceVersionRow

VERSION = table_of(PriceVersionRow)
RATE = table_of(PriceRateRow)
DISCOUNT = table_of(PriceDiscountRow)


def insert_draft(conn: Connection, version: dict[str, Any]) -> None:
    conn.execute(insert(VERSION), [{"status": "draft", **version}])


def insert_terms(
    conn: Connection, version_id: str, rates: Sequence[PriceRate], discounts: Sequence[Discount]
) -> None:
    """Insert the rates and discounts of a draft."""
    if rates:
        conn.execute(
            insert(RATE),
            [
                {
                    "version_id": version_id,
                    "model": rate.model,
                    "tier": rate.tier,
                    "batch": rate.batch,
                    "component": rate.component,
                    "prompt_from": rate.prompt_from,
                    "nanousd_per_mtok": rate.nanousd_per_mtok,
                    "units_max": rate.units_max,
                }
                for rate in rates
            ],
        )
    if discounts:
        conn.execute(
            insert(DISCOUNT),
            [
                {"version_id": version_id, "model": off.model, "basis_points": off.basis_points}
                for off in discounts
            ],
        )


def delete_terms(conn: Connection, version_id: str) -> None:
    for table in (RATE, DISCOUNT):
        conn.execute(delete(table).where(table.c.version_id == version_id))


def delete_draft(conn: Connection, version_id: str) -> None:
    delete_terms(conn, version_id)
    conn.execute(delete(VERSION).where(VERSION.c.version_id == version_id))


def change(conn: Connection, version_id: str, **values: Any) -> None:
    conn.execute(update(VERSION).where(VERSION.c.version_id == version_id).values(**values))


def versions(conn: Connection) -> list[dict[str, Any]]:
    """Draft, approved and active versions, oldest first, without their terms."""
    ordered = select(VERSION).order_by(VERSION.c.created_us, VERSION.c.version_id)
    return [dict(row) for row in conn.execute(ordered).mappings()]


def rates(conn: Connection) -> dict[str, list[PriceRate]]:
    """Every rate, by version."""
    by_version: dict[str, list[PriceRate]] = {}
    order = (RATE.c.model, RATE.c.tier, RATE.c.batch, RATE.c.prompt_from, RATE.c.component)
    for row in conn.execute(select(RATE).order_by(*order)).mappings():
        by_version.setdefault(row["version_id"], []).append(
            PriceRate(
                model=row["model"],
                tier=row["tier"],
                batch=bool(row["batch"]),
                component=row["component"],
                prompt_from=row["prompt_from"],
                nanousd_per_mtok=row["nanousd_per_mtok"],
                units_max=row["units_max"],
            )
        )
    return by_version


def discounts(conn: Connection) -> dict[str, list[Discount]]:
    """Every discount, by version."""
    by_version: dict[str, list[Discount]] = {}
    for row in conn.execute(select(DISCOUNT).order_by(DISCOUNT.c.model)).mappings():
        off = Discount(row["model"], row["basis_points"])
        by_version.setdefault(row["version_id"], []).append(off)
    return by_version
