"""Keeps the spools: confirms finished segments in SQL, and removes old confirmed ones.

A segment is confirmed once every call in it has its usage event. Its counts and its digest stay in
SQL, so that `verify` can show that nothing admitted is missing. Guards law 4.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.limits.types import Booked
from billing.queries import known
from billing.settings import LedgerSettings
from billing.spool import segments
from billing.spool import store as spools
from billing.spool.segments import Segment, SegmentIndex

log = logging.getLogger("sluice.ledger.keeper")

DAY_S = 86_400
MICROSECONDS = 1_000_000


class SpoolKeeper:
    """The spools below one folder. `now` is epoch seconds."""

    def __init__(
        self, root: Path, store: Store, settings: LedgerSettings, *, now: Callable[[], float]
    ) -> None:
        self._root = root
        self._store = store
        self._settings = settings
        self._now = now

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self.turn()
            except (OSError, SQLAlchemyError, msgspec.MsgspecError) as error:
                log.warning("spools are not confirmed: %s", error)
            await asyncio.sleep(self._settings.spool_interval_s)

    async def turn(self) -> None:
        for gateway in await asyncio.to_thread(segments.gateways, self._root):
            for segment in await asyncio.to_thread(segments.sealed, self._root, gateway):
                if await segments.in_ledger(segment, self._known):
                    await asyncio.to_thread(self._confirm, segment)
            before_s = self._now() - self._settings.spool_keep_days * DAY_S
            await asyncio.to_thread(segments.remove_done, self._root, gateway, before_s=before_s)

    def _confirm(self, segment: Segment) -> None:
        """Write the row in SQL before the mark on disk. A marked segment without a row would have
        to be trusted blindly."""
        index = segments.index(segment)
        with self._store.write() as conn:
            spools.insert_segment(conn, _row(index, int(self._now() * MICROSECONDS)))
        segments.mark_done(segment)

    async def _known(self, rids: Sequence[str]) -> Mapping[str, Booked]:
        return await asyncio.to_thread(known, self._store, rids)


def _row(index: SegmentIndex, now_us: int) -> dict[str, object]:
    return {
        "gateway": index.segment.gateway,
        "seq": index.segment.seq,
        "opened_count": len(index.opened),
        "closed_count": len(index.closed),
        "size_bytes": index.size_bytes,
        "sha": bytes.fromhex(index.sha256),
        "seen_us": now_us,
    }
