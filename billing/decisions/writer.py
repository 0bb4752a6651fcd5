"""From the stream of decision records and refusals into SQL, and out of it when their time is over.

Beside the ledger's writer, so that a decision costs the writing of money nothing. All records are
kept for `keep_s`, then a sample of them, and never more than `bytes_max`: the oldest go first. A
batch that cannot be read is dropped, and said to be: it explained calls, and held no money.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.decisions import batch
from billing.decisions import store as decisions
from billing.decisions.batch import DecisionBytes, UnreadableBatch
from billing.refusals import store as refusals
from billing.refusals.refusal import Refusal, UnreadableRefusals
from billing.refusals.refusal import decode as decode_refusals
from billing.settings import LedgerSettings

log = logging.getLogger("sluice.ledger.decisions")

DECISIONS_KEY: Final = "sluice:decisions"
STREAM_MAX: Final = 1000
"""Batches that wait for the ledger at most; the oldest go first."""
READ_MAX: Final = 50
RETIRED_MAX: Final = 50
"""Batches that are thinned or removed in one turn, each in a transaction of its own."""
MICROSECONDS: Final = 1_000_000


async def publish(redis: Redis, gateway: str, body: bytes, refusals: bytes = b"") -> None:
    """Hand a batch over to the ledger, with refusals beside it. Raises RedisError."""
    entry: dict[Any, Any] = {"g": gateway, "p": body}
    if refusals:
        entry["r"] = refusals
    await redis.xadd(DECISIONS_KEY, entry, maxlen=STREAM_MAX, approximate=True)


class DecisionWriter:
    """Reads the one stream of all gateways. `now` is epoch seconds."""

    def __init__(
        self, redis: Redis, store: Store, settings: LedgerSettings, *, now: Callable[[], float]
    ) -> None:
        self._redis: Any = redis
        self._store = store
        self._settings = settings
        self._now = now
        self._retire_s = 0.0

    async def run(self) -> None:
        """Run until cancelled. An outage of Redis or SQL is waited out."""
        while True:
            try:
                while await self.turn() == READ_MAX:
                    pass
                await self._retire_if_due()
            except (RedisError, OSError, SQLAlchemyError) as error:
                log.warning("records of decisions wait: %s", error)
            await asyncio.sleep(self._settings.decision_interval_s)

    async def turn(self) -> int:
        """Write the batches of the stream, `READ_MAX` at most, and take them out. Returns how many
        there were."""
        entries = await self._redis.xrange(DECISIONS_KEY, count=READ_MAX)
        if entries:
            await asyncio.to_thread(self._write, [fields for _, fields in entries])
            await self._redis.xdel(DECISIONS_KEY, *(entry for entry, _ in entries))
        return len(entries)

    def retire(self) -> int:
        """Thin what is old and remove what is too much, `RETIRED_MAX` batches at most. Returns how
        many there were, or `RETIRED_MAX` where refusals are left that are too many."""
        if self._retire_refusals():
            return RETIRED_MAX
        old_us = int((self._now() - self._settings.decision_keep_s) * MICROSECONDS)
        for done in range(RETIRED_MAX):
            with self._store.write() as conn:
                if (full := decisions.oldest_full(conn, old_us)) is not None:
                    decisions.thin(conn, full)
                elif decisions.size_bytes(conn) <= self._settings.decision_bytes_max:
                    return done
                elif (oldest := decisions.oldest(conn)) is not None:
                    decisions.remove(conn, oldest)
        return RETIRED_MAX

    async def _retire_if_due(self) -> None:
        if self._now() < self._retire_s:
            return
        while await asyncio.to_thread(self.retire) == RETIRED_MAX:
            pass
        self._retire_s = self._now() + self._settings.decision_retire_s

    def _retire_refusals(self) -> bool:
        settings = self._settings
        old_us = int((self._now() - settings.refusal_keep_s) * MICROSECONDS)
        with self._store.write() as conn:
            gone = refusals.retire(conn, old_us, settings.refusal_rows_max)
        return gone >= refusals.RETIRED_MAX

    def _write(self, entries: Sequence[Mapping[bytes, bytes]]) -> None:
        of_gateway: dict[str, list[DecisionBytes]] = {}
        refused: list[Refusal] = []
        for fields in entries:
            gateway = fields.get(b"g", b"").decode()
            try:
                of_gateway.setdefault(gateway, []).extend(batch.decode(fields.get(b"p", b"")))
                refused += decode_refusals(fields[b"r"]) if b"r" in fields else ()
            except (UnreadableBatch, UnreadableRefusals) as error:
                log.error("a batch of decision records is lost, it cannot be read: %s", error)
        with self._store.write() as conn:
            for gateway, records in of_gateway.items():
                decisions.add(conn, gateway, records)
            refusals.add(conn, refused)
