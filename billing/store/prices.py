"""Statements on versions of the price book and their rates."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, insert, select, update

from billing.pricebook import Component, PriceRate
from billing.tables import PriceRateRow, PriceVersionRow, table_of

VERSION = table_of(PriceVersionRow)
RATE = table_of(PriceRateRow)


def insert_draft(conn: Connection, version: dict[str, Any], rates: list[PriceRate]) -> None:
    conn.execute(insert(VERSION), [{"status": "draft", "effective_from_us": None, **version}])
    conn.execute(
        insert(RATE),
        [
            {
                "version_id": version["version_id"],
                "model": rate.model,
                "tier": rate.tier,
                "batch": rate.batch,
                "component": rate.component.value,
                "nanousd_per_mtok": rate.nanousd_per_mtok,
            }
            for rate in rates
        ],
    )


def activate(conn: Connection, version_id: str, effective_from_us: int) -> None:
    conn.execute(
        update(VERSION)
        .where(VERSION.c.version_id == version_id)
        .values(status="active", effective_from_us=effective_from_us)
    )


def versions(conn: Connection) -> list[dict[str, Any]]:
    """Drafts and active ones, oldest first, without their rates."""
    ordered = select(VERSION).order_by(VERSION.c.created_us, VERSION.c.version_id)
    return [dict(row) for row in conn.execute(ordered).mappings()]


def rates(conn: Connection) -> dict[str, list[PriceRate]]:
    """Every rate, by version."""
    found: dict[str, list[PriceRate]] = {}
    order = (RATE.c.model, RATE.c.tier, RATE.c.batch, RATE.c.component)
    for row in conn.execute(select(RATE).order_by(*order)).mappings():
        found.setdefault(row["version_id"], []).append(
            PriceRate(
                model=row["model"],
                tier=row["tier"],
                batch=bool(row["batch"]),
                component=Component(row["component"]),
                nanousd_per_mtok=row["nanousd_per_mtok"],
            )
        )
    return found
