"""Alerts of credit that runs low, in the transaction that moves it.

Whoever calls this has locked the standings of the organizations. Those that want to be told of
nothing cost a batch one look at an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from billing.credits.watch import Threshold, Watch, left_in_force
from billing.store import credits, watches
from billing.store.engine import Store

Left = Mapping[str, tuple[int, int]]
"""By organization the nano-USD that grants in force had left before, and have after."""


def tell(conn: Connection, left: Left, now_us: int) -> None:
    """Write down who fell below what."""
    rows: list[dict[str, Any]] = []
    for org, watch in sorted(watches.of_orgs(conn, sorted(left)).items()):
        found, fallen = watch.looked(*left[org])
        if found != watch:
            watches.looked(conn, found)
        rows += [_alert(found, threshold, now_us) for threshold in fallen]
    watches.insert_alerts(conn, rows)


def tell_now(conn: Connection, orgs: Iterable[str], now_us: int) -> None:
    """After anything but usage has moved the credit of these organizations."""
    named = sorted(orgs)
    held = credits.held(conn, named)
    now = {org: left_in_force(held.get(org, ()), now_us) for org in named}
    tell(conn, {org: (left, left) for org, left in now.items()}, now_us)


def watch(store: Store, org: str, thresholds: frozenset[Threshold], now_us: int) -> Watch:
    """Tell from now on of these thresholds; one that is kept and was told is not told again."""
    with store.write() as conn:
        credits.locked(conn, [org])
        left = left_in_force(credits.held(conn, [org]).get(org, ()), now_us)
        known = watches.of_orgs(conn, [org]).get(org) or Watch(org, thresholds, left, left)
        found = Watch(
            org, thresholds, known.granted_nanousd, known.left_nanousd, known.below & thresholds
        )
        watches.put(conn, found)
        tell(conn, {org: (left, left)}, now_us)
        return watches.of_orgs(conn, [org])[org]


def watch_of(store: Store, org: str) -> Watch:
    """As it was last looked at; of nothing, where nothing was asked for."""
    with store.read() as conn:
        return watches.of_orgs(conn, [org]).get(org, Watch(org, frozenset(), 0, 0))


def _alert(watch: Watch, threshold: Threshold, now_us: int) -> dict[str, Any]:
    return {
        "org": watch.org,
        "unit": threshold.unit.value,
        "threshold": threshold.value,
        "limit_nanousd": threshold.limit_nanousd(watch.granted_nanousd),
        "left_nanousd": watch.left_nanousd,
        "granted_nanousd": watch.granted_nanousd,
        "raised_us": now_us,
    }
