"""Looks which steps are due, in the ledger process. It may be killed at any time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.dunning.dunning import take_steps
from billing.dunning.steps import DunningStep

log = logging.getLogger("sluice.ledger.dunning")

MICROSECONDS = 1_000_000


class DunningKeeper:
    """`now` is epoch seconds."""

    def __init__(
        self,
        store: Store,
        steps: Sequence[DunningStep],
        *,
        interval_s: float,
        now: Callable[[], float],
    ) -> None:
        self._store = store
        self._steps = steps
        self._interval_s = interval_s
        self._now = now

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.turn)
            except (OSError, SQLAlchemyError) as error:
                log.warning("dunning waits: %s", error)
            await asyncio.sleep(self._interval_s)

    def turn(self) -> int:
        """Take what is due. How many steps."""
        if not self._steps:
            return 0
        return take_steps(self._store, self._steps, int(self._now() * MICROSECONDS))
