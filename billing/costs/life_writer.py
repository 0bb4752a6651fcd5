"""From the stream of replicas' lives into SQL: one transaction a batch, then out of the stream.

A report says all of a life so far, and is kept once. So a report that is read twice adds nothing,
and the next one makes good a lost one. A writer that is killed between any two steps repeats the
batch. An entry that cannot be read becomes a dead letter, and is never dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from billing.costs import capacity
from billing.costs import store as costs
from billing.costs.lifetimes import Bill, Cell, LifeReport, added, decode_report
from billing.db.engine import Store
from billing.ledger import store as transfers
from billing.types import UNREADABLE
from billing.writer import letters

log = logging.getLogger("sluice.ledger.lives")

LIVES_KEY = "sluice:lives"
READ_MAX = 500
NO_SHARD = -1
LIFE = "life"
MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class LifeEntry:
    """One entry of the stream, as it was read."""

    entry: str
    payload: bytes


@dataclass(slots=True)
class _LifePlan:
    reports: dict[str, list[LifeReport]] = field(default_factory=dict)
    letters: list[dict[str, Any]] = field(default_factory=list)


def book_lives(conn: Connection, entries: Sequence[LifeEntry], now_us: int) -> int:
    """Book a batch inside the caller's transaction. Returns how many of its reports were new."""
    plan = _LifePlan()
    for entry in entries:
        try:
            report = decode_report(entry.payload)
        except UNREADABLE as error:
            plan.letters.append(_letter(entry, str(error), now_us))
        else:
            plan.reports.setdefault(report.replica, []).append(report)
    new: list[LifeReport] = []
    bills: dict[Cell, Bill] = {}
    for replica, reports in sorted(plan.reports.items()):
        from_us = min(report.until_us for report in reports)
        fresh, changed = added(costs.reports_around(conn, replica, from_us), reports)
        new += fresh
        for cell, bill in changed.items():
            bills[cell] = bill if cell not in bills else bills[cell].plus(bill)
    costs.insert_reports(conn, new)
    moved = capacity.of_bills(bills)
    costs.add(conn, moved)
    if new:
        name = f"life:{new[0].replica}:{new[0].until_us}"
        transfers.post(conn, capacity.transfers(moved, {}, name, now_us))
    letters.add(conn, plan.letters)
    return len(new)


class LifeWriter:
    """Reads the one stream of all lives. `now` is epoch seconds."""

    def __init__(
        self, redis: Redis, store: Store, *, interval_s: float, now: Callable[[], float]
    ) -> None:
        self._redis: Any = redis
        self._store = store
        self._interval_s = interval_s
        self._now = now

    async def run(self) -> None:
        """Run until cancelled. An outage of Redis or SQL is waited out."""
        while True:
            try:
                while await self.turn() == READ_MAX:
                    pass
            except (RedisError, OSError, SQLAlchemyError) as error:
                log.warning("lives of replicas wait: %s", error)
            await asyncio.sleep(self._interval_s)

    async def turn(self) -> int:
        """Book the entries of the stream, `READ_MAX` at most, and take them out. Returns how many
        there were."""
        batch = await self._redis.xrange(LIVES_KEY, count=READ_MAX)
        if batch:
            entries = [LifeEntry(entry.decode(), fields.get(b"p", b"")) for entry, fields in batch]
            await asyncio.to_thread(self._book, entries)
            await self._redis.xdel(LIVES_KEY, *(entry for entry, _ in batch))
        return len(batch)

    def _book(self, entries: Sequence[LifeEntry]) -> None:
        with self._store.write() as conn:
            book_lives(conn, entries, int(self._now() * MICROSECONDS))


def _letter(entry: LifeEntry, detail: str, now_us: int) -> dict[str, Any]:
    return {
        "shard": NO_SHARD,
        "entry": entry.entry,
        "kind": LIFE,
        "rid": "",
        "reason": "malformed_life",
        "detail": detail,
        "payload": entry.payload,
        "created_us": now_us,
    }
