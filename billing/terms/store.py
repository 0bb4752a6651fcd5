"""Statements on the terms of organizations."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import insert_or_replace
from billing.terms.tables import OrganizationTerms
from billing.terms.term import MinimumTerm, Term, in_month

TERMS = table_of(OrganizationTerms)


def terms_of(conn: Connection, org: str) -> tuple[Term, ...]:
    """In their order; none of an organization that has none."""
    row = conn.execute(select(TERMS.c.terms).where(TERMS.c.org == org)).scalar_one_or_none()
    return () if row is None else msgspec.convert(row, tuple[Term, ...])


def with_minimum(conn: Connection, month: str) -> list[str]:
    """Organizations that pay something for a month, whatever they used."""
    statement = select(TERMS.c.org, TERMS.c.terms).where(TERMS.c.has_minimum)
    return [
        org
        for org, row in conn.execute(statement)
        if _minimums(in_month(msgspec.convert(row, tuple[Term, ...]), month))
    ]


def replace(conn: Connection, org: str, terms: Sequence[Term], now_us: int) -> None:
    row = {
        **{"org": org, "terms": msgspec.to_builtins(terms), "changed_us": now_us},
        "has_minimum": bool(_minimums(terms)),
    }
    insert_or_replace(conn, TERMS, [row], ("terms", "has_minimum", "changed_us"))


def _minimums(terms: Sequence[Term]) -> list[Term]:
    return [term for term in terms if isinstance(term, MinimumTerm)]
