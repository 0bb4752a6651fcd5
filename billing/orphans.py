"""The spools of gateways that are gone, told to a Redis that has lost what it knew of their calls.

A gateway tells its spool itself when it comes back. Until then what it alone knows could be spent
a second time: so before shards open the ledger tells it, where it can read the spool, which is to
say on one machine. Telling a call twice changes nothing. Guards law 8.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Container, Sequence
from functools import partial
from pathlib import Path

from billing.limits.holds import Holds
from billing.limits.types import Booked
from billing.prices import load_book
from billing.queries import known
from billing.rating import amounts_of_book
from billing.recovery import replay_spool
from billing.spool import replay
from billing.store.engine import Store

log = logging.getLogger("sluice.ledger.orphans")


class Orphans:
    """`now` is epoch seconds."""

    def __init__(
        self, spool_root: Path, holds: Holds, store: Store, *, now: Callable[[], float]
    ) -> None:
        self._root = spool_root
        self._holds = holds
        self._store = store
        self._now = now

    async def settle(self, alive: Container[str]) -> None:
        """Every call of a gateway that is gone: exactly if its spool has the end, else estimated.

        Raises LimitsUnavailable half-way; repeat it then.
        """
        for gateway in await asyncio.to_thread(self._gone, alive):
            calls = await asyncio.to_thread(replay, self._root, gateway)
            book = await asyncio.to_thread(load_book, self._store)
            outcomes = await replay_spool(
                calls,
                holds=self._holds,
                known=self._known,
                rate=amounts_of_book(book),
                now_us=lambda: int(self._now() * 1e6),
            )
            log.info("told the spool of %s, which is gone: %s", gateway, dict(outcomes))

    async def _known(self, rids: Sequence[str]) -> dict[str, Booked]:
        return await asyncio.to_thread(partial(known, self._store, rids))

    def _gone(self, alive: Container[str]) -> list[str]:
        if not self._root.is_dir():
            return []
        folders = sorted(found for found in self._root.iterdir() if found.is_dir())
        return [found.name for found in folders if found.name not in alive and _is_left(found)]


def _is_left(folder: Path) -> bool:
    """No process writes to this spool: whoever does has it locked (see Spool)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
