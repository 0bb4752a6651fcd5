"""Alerts of credit that runs low, in the transaction that moves it.

The caller has locked the standings of the organizations. An organization that asked for no alerts
costs a batch one look at an index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection

from billing.credits import store as credits
from billing.credits import watch_store
from billing.credits.watch import Threshold, Watch, left_in_force
from billing.db.engine import Store

Balances = Mapping[str, tuple[int, int]]
"""By organization the nano-USD that grants in force had left before, and have after."""


def tell(conn: Connection, left_by_org: Balances, now_us: int) -> None:
    """Write down which organizations fell below which of their thresholds."""
    rows: list[dict[str, Any]] = []
    for org, watch in sorted(watch_store.of_orgs(conn, sorted(left_by_org)).items()):
        new_watch, news = watch.looked(*left_by_org[org])
        if new_watch != watch:
            watch_store.looked(conn, new_watch)
        rows += [_alert(new_watch, threshold, now_us) for threshold in news]
    watch_store.insert_alerts(conn, rows)


def tell_now(conn: Connection, orgs: Iterable[str], now_us: int) -> None:
    """Write alerts after something other than usage has moved the credit of these organizations."""
    in_order = sorted(orgs)
    held = credits.held(conn, in_order)
    now = {org: left_in_force(held.get(org, ()), now_us) for org in in_order}
    tell(conn, {org: (rests, rests) for org, rests in now.items()}, now_us)


def watch(store: Store, org: str, thresholds: frozenset[Threshold], now_us: int) -> Watch:
    """Set the thresholds of an organization. A threshold that it had before and was alerted of
    raises no second alert."""
    with store.write() as conn:
        credits.locked(conn, [org])
        rest = left_in_force(credits.held(conn, [org]).get(org, ()), now_us)
        before = watch_store.of_orgs(conn, [org]).get(org) or Watch(org, thresholds, rest, rest)
        new_watch = Watch(
            org, thresholds, before.granted_nanousd, before.left_nanousd, before.below & thresholds
        )
        watch_store.put(conn, new_watch)
        tell(conn, {org: (rest, rest)}, now_us)
        return watch_store.of_orgs(conn, [org])[org]


def watch_of(store: Store, org: str) -> Watch:
    """The watch of an organization as it was last looked at. It is empty where the organization
    asked for no alerts."""
    with store.read() as conn:
        return watch_store.of_orgs(conn, [org]).get(org, Watch(org, frozenset(), 0, 0))


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
