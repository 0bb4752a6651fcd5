"""Whether anything that gateways keep in memory has changed: the revision in SQL, polled.

Waits for nothing but SQL and loads nothing, so that a revoked key stops within a poll however long
whoever reads the change takes for it. Guards the bound of design: within 5 s, whatever is lost.
"""

import asyncio
import logging
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from gateway.tenants.store import TenantStore

log = logging.getLogger(__name__)


class RevisionWatch:
    """Calls `changed` at each revision that differs from the last one seen, whoever has read what
    of it: a change that commits while another is read is told by the next look."""

    def __init__(self, store: TenantStore, *, on_change: Callable[[], None], poll_s: float) -> None:
        self._store = store
        self._changed = on_change
        self._poll_s = poll_s
        self._seen = -1
        self._suspended: frozenset[str] = frozenset()

    def is_suspended(self, organization: str) -> bool:
        """Whether calls of it end that still run."""
        return organization in self._suspended

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except SQLAlchemyError as away:
                log.error("revision: nobody can say whether anything changed: %s", away)
            await asyncio.sleep(self._poll_s)

    async def look(self) -> int:
        """The revision now; raises SQLAlchemyError."""
        revision = await asyncio.to_thread(self._store.revision)
        if revision != self._seen:
            self._changed()
            self._suspended = await asyncio.to_thread(self._store.suspended)
            self._seen = revision
        return revision
