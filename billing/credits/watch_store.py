"""Statements on credit that runs low: the alerts that organizations want, and those they got."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert, select, update

from billing.credits.tables import CreditAlert, CreditWatch
from billing.credits.watch import Threshold, ThresholdUnit, Watch
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, insert_or_replace

WATCH = table_of(CreditWatch)
ALERT = table_of(CreditAlert)


def of_orgs(conn: Connection, orgs: Sequence[str]) -> dict[str, Watch]:
    """The watches of those organizations that have one. A caller that changes a watch has locked
    the organization's standing."""
    rows = conn.execute(select(WATCH).where(in_list(conn, WATCH.c.org, orgs)))
    return {row.org: _watch(row) for row in rows}


def put(conn: Connection, watch: Watch) -> None:
    """Write the thresholds of a watch, the first ones or others."""
    row = {"org": watch.org, "thresholds": _listed(watch.thresholds), **_moving(watch)}
    insert_or_replace(conn, WATCH, [row], [name for name in row if name != "org"])


def looked(conn: Connection, watch: Watch) -> None:
    conn.execute(update(WATCH).where(WATCH.c.org == watch.org).values(**_moving(watch)))


def insert_alerts(conn: Connection, rows: Sequence[Row]) -> None:
    if rows:
        conn.execute(insert(ALERT), [dict(row) for row in rows])


def alerts(
    conn: Connection, *, org: str | None, before_us: int | None, limit: int
) -> list[dict[str, Any]]:
    """Alerts, newest first. `percent` is None where the threshold is an amount."""
    statement = select(ALERT).order_by(ALERT.c.raised_us.desc(), ALERT.c.id).limit(limit)
    if org is not None:
        statement = statement.where(ALERT.c.org == org)
    if before_us is not None:
        statement = statement.where(ALERT.c.raised_us < before_us)
    return [dict(row) | {"percent": _percent(row)} for row in conn.execute(statement).mappings()]


def _percent(alert: Mapping[Any, Any]) -> int | None:
    return alert["threshold"] if alert["unit"] == ThresholdUnit.PERCENT else None


def _moving(watch: Watch) -> dict[str, Any]:
    return {
        "granted_nanousd": watch.granted_nanousd,
        "left_nanousd": watch.left_nanousd,
        "below": _listed(watch.below),
    }


def _listed(thresholds: Iterable[Threshold]) -> list[list[Any]]:
    return [[unit.value, value] for unit, value in sorted(thresholds)]


def _watch(row: Any) -> Watch:
    return Watch(
        row.org,
        thresholds=_thresholds(row.thresholds),
        granted_nanousd=row.granted_nanousd,
        left_nanousd=row.left_nanousd,
        below=_thresholds(row.below),
    )


def _thresholds(pairs: list[list[Any]]) -> frozenset[Threshold]:
    return frozenset(Threshold(ThresholdUnit(unit), value) for unit, value in pairs)
