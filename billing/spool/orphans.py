"""Replays the spools of gateways that are gone, to a Redis that lost what it knew of their calls.

A gateway replays its spool itself when it comes back. Until then a charge that only its spool knows
could be spent a second time. So the ledger replays the spool before shards open, where it can read
it: on the same machine. A second replay of a call changes nothing. Guards law 8.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.types import Booked
from billing.prices.rating import amounts_of_book
from billing.prices.versions import load_book
from billing.queries import known
from billing.recovery.recovery import replay_spool
from billing.spool.spool import replay

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

    async def settle(self, gateways: Iterable[str]) -> None:
        """Settle every call of these gateways, which are gone: exactly if the spool has its end,
        else as estimated.

        Raises LimitsUnavailable half-way; repeat it then.
        """
        for gateway in gateways:
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

    def names(self) -> set[str]:
        """Gateways that write or wrote on this machine."""
        return {folder.name for folder in self._folders()}

    def in_use(self) -> set[str]:
        """Gateways that run on this machine, whether Redis knows them or not."""
        return {folder.name for folder in self._folders() if not _is_left(folder)}

    def _folders(self) -> list[Path]:
        if not self._root.is_dir():
            return []
        return sorted(folder for folder in self._root.iterdir() if folder.is_dir())


def _is_left(folder: Path) -> bool:
    """Whether no process writes to this spool. A gateway that writes has it locked (see Spool)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
