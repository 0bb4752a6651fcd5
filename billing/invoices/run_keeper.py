"""Carries out invoice runs in the ledger process, a few organizations at a time. The process may be
killed at any time, and outages of SQL are waited out.

A run rests after each invoice for as long as that took. So the writer, which shares processors and
database with it, has half of them at least, and meets one invoice at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.runs import advance
from billing.settings import LedgerSettings

log = logging.getLogger("sluice.ledger.invoices")

MICROSECONDS = 1_000_000


REST_MAX_S = 1.0


class Pace:
    """Rests for as long as it was since the last rest. `tick` is a monotonic clock."""

    def __init__(self, tick: Callable[[], float], sleep: Callable[[float], None]) -> None:
        self._tick = tick
        self._sleep = sleep
        self._since = tick()

    def begin(self) -> None:
        self._since = self._tick()

    def rest(self) -> None:
        self._sleep(min(self._tick() - self._since, REST_MAX_S))
        self.begin()


class InvoiceRunKeeper:
    """`now` is epoch seconds."""

    def __init__(
        self,
        store: Store,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
        pace: Pace,
        guards: Guards = GUARDS,
    ) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._pace = pace
        self._guards = guards

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            has_more = False
            try:
                has_more = await asyncio.to_thread(self.turn)
            except (OSError, SQLAlchemyError) as error:
                log.warning("invoice runs wait: %s", error)
            if not has_more:
                await asyncio.sleep(self._settings.publish_interval_s)

    def turn(self) -> bool:
        """Take a run a step further; false if none is due. One that waits for the writer's mark is
        looked at as often as that may come."""
        self._pace.begin()
        return advance(
            self._store,
            now_us=int(self._now() * MICROSECONDS),
            series=self._settings.invoice_series,
            retry_after_us=int(self._settings.mark_interval_s * MICROSECONDS),
            grace_us=self._settings.invoice_grace_us,
            guards=self._guards,
            rest=self._pace.rest,
        )
