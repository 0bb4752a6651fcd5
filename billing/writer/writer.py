"""The writer: from the usage streams into SQL, then acknowledge, then trim.

The order is the guarantee. A writer that is killed between any two steps repeats a step, and the
repetition has no effect. While a batch is booked, the next one is read and rated, and the one
before is acknowledged. So neither SQL nor Redis waits for Python. A record that cannot be booked
does not stop the others. It stays pending and is tried again. After `deliveries_max` deliveries it
goes to dead_letter. Guards law 4.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from billing.db.engine import OUTAGE, Store
from billing.ledger import booking
from billing.ledger.booking import Batch, BookedBatch, Failure, Record
from billing.limits.keys import SHARDS
from billing.prices.book import PriceBook
from billing.prices.versions import load_book
from billing.settings import LedgerSettings
from billing.writer import marks
from billing.writer.marks import order_of
from billing.writer.stream import READ_MAX, GroupMissing, UsageStreams

log = logging.getLogger("sluice.ledger.writer")

MICROSECONDS = 1_000_000


@dataclass(slots=True)
class WriterStats:
    """Counters since the process began."""

    batches: int = 0
    events: int = 0
    corrections: int = 0
    repeated: int = 0
    dead: int = 0
    trimmed_at: dict[int, str] = field(default_factory=dict)


Deliveries = Mapping[tuple[int, str], int]
"""By place how often a record was delivered, where that was more than once."""


@dataclass(frozen=True, slots=True)
class _Done:
    """The result of booking a batch, and the entries to acknowledge."""

    booked: BookedBatch
    dead: int
    entries: dict[int, list[str]]


class Writer:
    """One consumer of all shards. `now` is epoch seconds, `tick` a monotonic clock."""

    def __init__(
        self,
        streams: UsageStreams,
        store: Store,
        settings: LedgerSettings,
        *,
        now: Callable[[], float],
        tick: Callable[[], float],
    ) -> None:
        self.stats = WriterStats()
        self._streams = streams
        self._store = store
        self._settings = settings
        self._now = now
        self._tick = tick
        self._prices: PriceBook | None = None
        self._acknowledged: dict[int, str] = {}
        self._next_round: float | None = None
        self._next_mark = 0.0

    async def run(self) -> None:
        """Run until cancelled. An outage of Redis or SQL is waited out, record by record."""
        while True:
            try:
                await self.turn()
            except GroupMissing:
                await self._start_over()
            except (RedisError, OSError, *OUTAGE) as error:
                log.warning("the ledger waits: %s", error)
                await asyncio.sleep(self._settings.outage_pause_s)

    async def turn(self) -> None:
        """Do one round: pending records (first of all, and then every while), then new ones."""
        pending_left = await self._round_if_due()
        begun_us = self._now_us()
        records = await self._streams.read_new(self._settings.block_ms)
        await self._book_all(self._new(records), {})
        if 0 < len(records) < READ_MAX:
            await asyncio.sleep(self._settings.linger_ms / 1000)
        elif not records and pending_left == 0:
            await self._mark(begun_us)

    async def _start_over(self) -> None:
        """Start over after Redis was emptied. Its new stream ids have nothing to do with the old
        ones."""
        self._acknowledged.clear()
        self.stats.trimmed_at.clear()
        try:
            await self._streams.ensure_groups()
        except (RedisError, OSError) as error:
            log.warning("no consumer groups yet: %s", error)
            await asyncio.sleep(self._settings.outage_pause_s)

    async def _round_if_due(self) -> int | None:
        """Retry and trim every `retry_after_s`. Returns how many records are pending, None between
        rounds.

        The first round takes every pending record at once: the process before left them.
        """
        first = self._next_round is None
        if not self._is_round_due():
            return None
        if first:
            await self._streams.ensure_groups()
        pending = await self._streams.pending(self._settings.pending_max)
        idle_ms = 0 if first else self._settings.retry_after_s * 1000
        due = [item for item in pending if item.idle_ms >= idle_ms]
        deliveries = {(item.shard, item.entry): item.deliveries + 1 for item in due}
        claimed = await self._streams.claim(due) if due else []
        await self._book_all(self._batches(claimed), deliveries)
        await self._trim({item.shard: item.entry for item in reversed(pending)})
        full_round = first and len(due) >= self._settings.pending_max
        self._next_round = None if full_round else self._tick() + self._settings.retry_after_s
        return len(pending)

    def _is_round_due(self) -> bool:
        return self._next_round is None or self._tick() >= self._next_round

    async def _new(self, records: Sequence[Record]) -> AsyncIterator[Batch]:
        """Batches of the records that were read, and of those that can be read while they are
        booked. It ends when few records come, or a round is due. A single busy stream is read until
        it fills a batch."""
        count = len(records)
        while records:
            while count >= READ_MAX and len(records) < self._settings.batch_max:
                more = await self._streams.read_new(None)
                count, records = len(more), [*records, *more]
            async for batch in self._batches(records):
                yield batch
            if count < READ_MAX or self._is_round_due():
                return
            records = await self._streams.read_new(None)
            count = len(records)

    async def _batches(self, records: Sequence[Record]) -> AsyncIterator[Batch]:
        for part in _chunks(records, self._settings.batch_max):
            yield await asyncio.to_thread(self._read, part)

    async def _book_all(self, batches: AsyncIterator[Batch], deliveries: Deliveries) -> None:
        """Do three things at a time: make a batch, book the one before it, and acknowledge the one
        before that."""
        done: _Done | None = None
        batch = await anext(batches, None)
        while batch or done:
            batch, done, _ = await _all(
                anext(batches, None), self._booked(batch, deliveries), self._acknowledge(done)
            )

    async def _booked(self, batch: Batch | None, deliveries: Deliveries) -> _Done | None:
        if batch is None:
            return None
        booked = await asyncio.to_thread(self._book, batch)
        hopeless = [
            failure
            for failure in booked.failures
            if deliveries.get(_place(failure.record), 1) >= self._settings.deliveries_max
        ]
        if hopeless:
            await asyncio.to_thread(self._give_up, hopeless)
        waiting = {_place(f.record) for f in booked.failures} - {_place(f.record) for f in hopeless}
        entries: dict[int, list[str]] = {}
        for record in batch.records:
            if _place(record) not in waiting:
                entries.setdefault(record.shard, []).append(record.entry)
        return _Done(booked, len(hopeless), entries)

    async def _acknowledge(self, done: _Done | None) -> None:
        if done is None:
            return
        await self._streams.acknowledge(done.entries)
        for shard, entry in _newest(done.entries).items():
            self._acknowledged[shard] = max(
                self._acknowledged.get(shard, "0-0"), entry, key=order_of
            )
        self._count(done.booked, done.dead)

    def _book(self, batch: Batch) -> BookedBatch:
        """Book a batch in one transaction. If a record breaks the batch, its records are booked one
        by one.

        Any error but an outage is the fault of a record, and must not stop the rest.
        """
        try:
            booked = self._book_together(batch)
        except OUTAGE:
            raise
        except Exception as error:
            log.warning("a batch of %d is booked one by one: %s", len(batch.records), error)
            return self._book_apart(batch.records)
        unpriced = [f.record for f in booked.failures if f.reason == "unpriced"]
        if unpriced and self._reload_prices(batch.prices):
            again = self._book_together(self._read(unpriced))
            others = [f for f in booked.failures if f.reason != "unpriced"]
            return _sum(booked, again, others + again.failures)
        return booked

    def _read(self, records: Sequence[Record]) -> Batch:
        prices = self._prices or self._read_prices()
        return booking.read(records, prices, self._now_us())

    def _book_together(self, batch: Batch) -> BookedBatch:
        entries: dict[int, list[str]] = {}
        for record in batch.records:
            entries.setdefault(record.shard, []).append(record.entry)
        with self._store.write() as conn:
            booked = booking.book(conn, batch)
            marks.advance(conn, _newest(entries))
        return booked

    def _book_apart(self, records: Sequence[Record]) -> BookedBatch:
        total = BookedBatch()
        for record in records:
            try:
                booked = self._book_together(self._read([record]))
            except OUTAGE:
                raise
            except Exception as error:
                booked = BookedBatch(failures=[Failure(record, "unbookable", repr(error))])
            total = _sum(total, booked, total.failures + booked.failures)
        return total

    def _give_up(self, failures: Sequence[Failure]) -> None:
        for failure in failures:
            log.error("dead letter %s %s: %s", failure.reason, failure.record.rid, failure.detail)
        with self._store.write() as conn:
            booking.give_up(conn, failures, self._now_us())

    def _reload_prices(self, book: PriceBook) -> bool:
        """Read the price book again, and say whether it changed. A version may have been activated
        since."""
        return self._read_prices().revision != book.revision

    def _read_prices(self) -> PriceBook:
        self._prices = load_book(self._store)
        return self._prices

    async def _trim(self, oldest_pending: dict[int, str]) -> None:
        oldest = {
            shard: min(entry, oldest_pending.get(shard, entry), key=order_of)
            for shard, entry in self._acknowledged.items()
        }
        fresh = {s: entry for s, entry in oldest.items() if self.stats.trimmed_at.get(s) != entry}
        if fresh:
            await self._streams.trim(fresh)
            self.stats.trimmed_at.update(fresh)

    async def _mark(self, at_us: int) -> None:
        if self._tick() < self._next_mark:
            return
        await asyncio.to_thread(self._mark_in_sql, at_us)
        self._next_mark = self._tick() + self._settings.mark_interval_s

    def _mark_in_sql(self, at_us: int) -> None:
        with self._store.write() as conn:
            marks.caught_up(conn, SHARDS, at_us)

    def _count(self, booked: BookedBatch, dead: int) -> None:
        self.stats.batches += 1
        self.stats.events += booked.events
        self.stats.corrections += booked.corrections
        self.stats.repeated += booked.repeated
        self.stats.dead += dead

    def _now_us(self) -> int:
        return int(self._now() * MICROSECONDS)


async def _all(*steps: Awaitable[Any]) -> list[Any]:
    """The results of the steps, when all have ended. Then the first error is raised."""
    results = await asyncio.gather(*steps, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _sum(a: BookedBatch, b: BookedBatch, failures: list[Failure]) -> BookedBatch:
    return BookedBatch(
        events=a.events + b.events,
        corrections=a.corrections + b.corrections,
        repeated=a.repeated + b.repeated,
        opened=a.opened + b.opened,
        conflicts=a.conflicts + b.conflicts,
        failures=failures,
    )


def _place(record: Record) -> tuple[int, str]:
    return record.shard, record.entry


def _newest(entries: Mapping[int, Sequence[str]]) -> dict[int, str]:
    """The newest entry of each shard. The entries of a shard may come in any order."""
    return {shard: max(ids, key=order_of) for shard, ids in entries.items()}


def _chunks(records: Sequence[Record], size_max: int) -> Iterator[Sequence[Record]]:
    """Chunks of equal size, as few as possible."""
    chunks = -(-len(records) // size_max)
    for place in range(chunks):
        yield records[place * len(records) // chunks : (place + 1) * len(records) // chunks]
