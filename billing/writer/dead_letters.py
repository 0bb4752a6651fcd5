"""Dead letters: records that could not be booked. A person looks at them, tries them again, or
judges them.

A letter never changes. Its resolution is a row beside it, written once. A retry books the record as
the writer does, in one transaction with that row, so it happens once. A letter that was judged
counts as booked: nothing waits for its call any more. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from redis.asyncio import Redis
from sqlalchemy import Connection

from billing.costs.life_writer import LIFE, NO_SHARD, LifeEntry, book_lives
from billing.costs.lifetimes import decode_report
from billing.db.engine import OUTAGE, Store
from billing.ledger import booking
from billing.ledger.booking import Record, RecordKind
from billing.prices.book import PriceBook
from billing.prices.versions import load_book
from billing.recovery import holds
from billing.recovery.primer import RECOUNT_KEY
from billing.types import UNREADABLE, decode_opened, decode_settled
from billing.writer import letters

OF_PEOPLE = {
    "amount_mismatch": "its call is booked for what our prices say, and the record says another"
    " amount: a person has to judge that",
    "conflict": "its call is booked already, by another exact record: a person has to judge that",
}
"""Reasons that no further try changes, and why not."""


class LetterOutcome(StrEnum):
    BOOKED = letters.BOOKED
    JUDGED = letters.JUDGED


@dataclass(frozen=True, slots=True)
class Resolution:
    """The outcome of a letter. `note` has the reason where a person judged it."""

    outcome: LetterOutcome
    by: str
    note: str
    at_us: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that could not be booked as it stood. `shard` is -1 for lives of replicas."""

    number: int
    shard: int
    entry: str
    kind: str
    rid: str
    reason: str
    detail: str
    payload: bytes
    created_us: int
    resolution: Resolution | None

    @property
    def is_of_people(self) -> bool:
        """Whether only a person can resolve it, because trying again cannot help."""
        return self.reason in OF_PEOPLE


class UnknownLetter(LookupError):
    """No letter has this number."""


class StillDead(Exception):
    """The record cannot be booked now either. The message has the reason, and nothing was
    changed."""


class AlreadyResolved(Exception):
    """The letter has a resolution already, and gets no other."""

    def __init__(self, letter: Letter) -> None:
        assert letter.resolution is not None
        resolution = letter.resolution
        words = f": {resolution.note}" if resolution.note else ""
        super().__init__(f"it was {resolution.outcome.value} by {resolution.by}{words}")
        self.letter = letter


def listed(
    store: Store, *, resolved_too: bool = False, after: int = 0, limit: int | None = None
) -> list[Letter]:
    """Letters in the order in which they came, from the one after `after`."""
    with store.read() as conn:
        rows = letters.listed(conn, resolved_too=resolved_too, after=after, limit=limit)
    return [_letter(row) for row in rows]


def one(store: Store, number: int) -> Letter:
    """The letter of a number. Raises UnknownLetter."""
    with store.read() as conn:
        return _must_get(conn, number)


def counts(store: Store) -> tuple[int, int, int]:
    """How many letters are open, were booked after all, and were judged."""
    with store.read() as conn:
        by_outcome = letters.counts(conn)
    return (
        by_outcome.get(None, 0),
        by_outcome.get(letters.BOOKED, 0),
        by_outcome.get(letters.JUDGED, 0),
    )


def retry(store: Store, number: int, *, by: str, now_us: int) -> Letter:
    """Book the record as the writer would. A letter that was booked before stays as it is.

    Raises UnknownLetter, AlreadyResolved if the letter was judged, and StillDead.
    """
    prices = load_book(store)
    try:
        with store.write() as conn:
            letters.lock(conn, number)
            letter = _must_get(conn, number)
            if letter.resolution is None:
                note = _booked(conn, letter, prices, now_us)
                _resolve(conn, number, LetterOutcome.BOOKED, by, note, now_us)
                letter = _must_get(conn, number)
    except (UnknownLetter, StillDead, *OUTAGE):
        raise
    except Exception as error:  # whatever else the record makes SQL or us say
        raise StillDead(f"unbookable: {error!r}") from error
    if letter.resolution and letter.resolution.outcome is LetterOutcome.JUDGED:
        raise AlreadyResolved(letter)
    return letter


def judge(store: Store, number: int, *, by: str, note: str, now_us: int) -> Letter:
    """Write down a person's judgement of a letter. If the letter is the end of a call, that call is
    open no longer.

    Raises UnknownLetter and AlreadyResolved.
    """
    with store.write() as conn:
        letters.lock(conn, number)
        letter = _must_get(conn, number)
        if letter.resolution is not None:
            raise AlreadyResolved(letter)
        _resolve(conn, number, LetterOutcome.JUDGED, by, note, now_us)
        if _is_an_end(letter):
            holds.delete_open(conn, [letter.rid])
        return _must_get(conn, number)


def readable(payload: bytes) -> Any:
    """A payload as JSON, or as text where it is none."""
    try:
        return msgspec.json.decode(payload)
    except UNREADABLE:
        return payload.decode(errors="backslashreplace")


async def ask_to_recount(redis: Redis, letter: Letter) -> None:
    """Ask the ledger process to set anew what Redis counts as spent in the letter's shard. Redis
    has counted what the record said. If it was primed since, it has counted nothing."""
    if letter.shard != NO_SHARD:
        reply: Any = redis.sadd(RECOUNT_KEY, letter.shard)
        await reply


def _booked(conn: Connection, letter: Letter, prices: PriceBook, now_us: int) -> str:
    """Book the record, and return the note for its resolution. Raises StillDead."""
    if letter.is_of_people:
        raise StillDead(OF_PEOPLE[letter.reason])
    if letter.kind == LIFE:
        return _life_booked(conn, letter, now_us)
    record = Record(letter.shard, letter.entry, letter.kind, letter.rid, letter.payload)
    booked = booking.book(conn, booking.read([record], prices, now_us))
    for failure in booked.failures:
        raise StillDead(f"{failure.reason}: {failure.detail}")
    if booked.conflicts:
        raise StillDead(OF_PEOPLE["conflict"])
    is_news = booked.events or booked.corrections or booked.opened
    return "" if is_news else "the ledger had its call already"


def _life_booked(conn: Connection, letter: Letter, now_us: int) -> str:
    try:
        decode_report(letter.payload)
    except UNREADABLE as error:
        raise StillDead(f"malformed_life: {error}") from error
    is_news = book_lives(conn, [LifeEntry(letter.entry, letter.payload)], now_us)
    return "" if is_news else "the ledger had this report already"


def _is_an_end(letter: Letter) -> bool:
    """Whether the record is the end of the call that it names."""
    try:
        return letter.kind == RecordKind.SETTLED and (
            decode_settled(letter.payload).rid == letter.rid
        )
    except UNREADABLE:
        return False


def _resolve(
    conn: Connection, number: int, outcome: LetterOutcome, by: str, note: str, now_us: int
) -> None:
    letters.resolve(
        conn,
        {
            "letter_id": number,
            "outcome": outcome.value,
            "resolved_by": by,
            "note": note,
            "resolved_us": now_us,
        },
    )


def _must_get(conn: Connection, number: int) -> Letter:
    row = letters.one(conn, number)
    if row is None:
        raise UnknownLetter(number)
    return _letter(row)


def _letter(row: Mapping[str, Any]) -> Letter:
    resolution = None
    if row["outcome"] is not None:
        resolution = Resolution(
            LetterOutcome(row["outcome"]), row["resolved_by"], row["note"], row["resolved_us"]
        )
    return Letter(
        number=row["id"],
        shard=row["shard"],
        entry=row["entry"],
        kind=row["kind"] or _kind_of(row["shard"], row["payload"]),
        rid=row["rid"],
        reason=row["reason"],
        detail=row["detail"],
        payload=row["payload"],
        created_us=row["created_us"],
        resolution=resolution,
    )


def _kind_of(shard: int, payload: bytes) -> str:
    """The kind of a letter that was written before kinds were kept. An opened call has fields that
    no end has."""
    if shard == NO_SHARD:
        return LIFE
    try:
        decode_opened(payload)
    except UNREADABLE:
        return RecordKind.SETTLED
    return RecordKind.RESERVED
