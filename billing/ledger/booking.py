"""Books stream records: one transaction a batch, each request id once.

A record may be delivered twice, late or out of order. There is still one usage event per request
id, and the net of its transfers is the rated usage of its best record (law 4). A record that cannot
be booked is reported, never dropped. A conflict becomes a dead letter at once. Any other record is
tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec
from sqlalchemy import Connection

from billing.budgets.counting import count_budgets
from billing.charges import store as charge_sums
from billing.charges import sums as charges
from billing.costs import capacity
from billing.costs import store as costs
from billing.credits.burning import paid_by_credits
from billing.db.engine import look_up_by_index, take_turns
from billing.ledger import closed, posting
from billing.ledger import store as transfers
from billing.ledger.posting import LatestRecord, Posting, Step
from billing.outbox.usage import places
from billing.prices.book import PriceBook
from billing.prices.rating import Charge, Unrateable
from billing.prices.versions import book_of
from billing.recovery import holds
from billing.types import (
    UNREADABLE,
    OpenedCall,
    SettledCall,
    counts_of,
    decode_opened,
    decode_settled,
)
from billing.usage import idempotency, rollup, rollups
from billing.usage import store as usage
from billing.usage.rollup import CountedCall
from billing.writer import letters


class RecordKind(StrEnum):
    RESERVED = "reserved"
    SETTLED = "settled"


class Record(msgspec.Struct, frozen=True):
    """One entry of the stream, as it was read."""

    shard: int
    entry: str
    kind: str
    rid: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """A record that was not booked, and why."""

    record: Record
    reason: str
    detail: str


@dataclass(slots=True)
class BookedBatch:
    """What a batch added to the ledger, and the records that failed."""

    events: int = 0
    corrections: int = 0
    repeated: int = 0
    opened: int = 0
    conflicts: int = 0
    failures: list[Failure] = field(default_factory=list)


class Settled(msgspec.Struct, frozen=True):
    """A call that ended, with all of its booking that needs no look at the ledger: its charge, and
    its rows if it is the first record of its request id."""

    record: Record
    call: SettledCall
    payload_sha: bytes
    charge: Charge
    first: Posting


@dataclass(slots=True)
class Batch:
    """Records with their contents, read at one instant and rated by one state of the book."""

    records: Sequence[Record]
    prices: PriceBook
    now_us: int
    settled: list[Settled] = field(default_factory=list)
    opened: dict[str, Record] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


@dataclass(slots=True)
class _Plan:
    """The rows of one transaction, and what is known of each request id so far."""

    latest: dict[str, LatestRecord]
    postings: list[Posting] = field(default_factory=list)
    ended_before: list[str] = field(default_factory=list)
    letters: list[dict[str, Any]] = field(default_factory=list)
    booked: BookedBatch = field(default_factory=BookedBatch)


def read(records: Sequence[Record], prices: PriceBook, now_us: int) -> Batch:
    """Decode and rate records, and make their rows. All of it happens outside a transaction."""
    batch = Batch(records, prices, now_us)
    for record in records:
        try:
            _read(batch, record)
        except UNREADABLE as error:
            batch.failures.append(Failure(record, "malformed", str(error)))
        except Unrateable as error:
            batch.failures.append(Failure(record, "unpriced", str(error)))
        except Exception as error:  # whatever else it may be, the record is at fault
            batch.failures.append(Failure(record, "unbookable", repr(error)))
    return batch


def book(conn: Connection, batch: Batch) -> BookedBatch:
    """Book a batch inside the caller's transaction, and report the result.

    Writers take turns. A writer that reads that a call was admitted must not miss the end of that
    call in the batch of another writer. Else the call stays open for good.
    """
    take_turns(conn, places.BOOKING_LOCK)
    look_up_by_index(conn)
    rids = list({record.rid for record in batch.records})
    plan = _Plan(latest=usage.latest(conn, rids))
    plan.booked.failures += batch.failures
    open_us = closed.open_from_us(conn)
    followed_us = places.newest(conn)
    next_us = charge_sums.next_place(conn, batch.now_us)
    place_us = max(next_us, open_us, (followed_us or 0) + 1)
    for settled in batch.settled:
        _plan(plan, settled, place_us)
    _write(conn, plan, _still_open(plan, batch.opened), batch.prices, place_us, open_us)
    if followed_us is not None:
        places.keep(conn, place_us, plan.postings)
    return plan.booked


def give_up(conn: Connection, failures: Sequence[Failure], now_us: int) -> None:
    """Make dead letters of records that cannot be booked."""
    letters.add(conn, [_letter(failure, now_us) for failure in failures])


def _read(batch: Batch, record: Record) -> None:
    if record.kind == RecordKind.RESERVED:
        batch.opened[record.rid] = record
        return
    if record.kind != RecordKind.SETTLED:
        batch.failures.append(Failure(record, "unknown_kind", record.kind))
        return
    call = decode_settled(record.payload)
    if call.rid != record.rid or min(counts_of(call.usage)) < 0:
        batch.failures.append(Failure(record, "malformed", "contradicts itself"))
        return
    sha = sha256(record.payload).digest()
    charge = posting.charge_for(call, batch.prices)
    first = posting.posting(call, sha, charge, None, batch.now_us)
    batch.settled.append(Settled(record, call, sha, charge, first))


def _plan(plan: _Plan, settled: Settled, now_us: int) -> None:
    record, call = settled.record, settled.call
    before = plan.latest.get(call.rid)
    step = posting.step_for(call, settled.payload_sha, before)
    if step == Step.CONFLICT:
        plan.booked.conflicts += 1
        plan.letters.append(_letter(Failure(record, "conflict", "another exact record"), now_us))
    if step not in (Step.FIRST, Step.CORRECTION):
        plan.booked.repeated += 1
        plan.ended_before.append(call.rid)
        return
    charge = settled.charge
    if charge.amount_nanousd != call.amount_nanousd:
        detail = f"the call says {call.amount_nanousd}, booked {charge.amount_nanousd}"
        plan.letters.append(_letter(Failure(record, "amount_mismatch", detail), now_us))
    entry = settled.first
    if before:
        entry = posting.posting(call, settled.payload_sha, charge, before, now_us)
    entry.usage["ingested_us"] = now_us
    for row in entry.transfers:
        row["created_us"] = now_us
    plan.postings.append(entry)
    plan.latest[call.rid] = entry.record


def _still_open(plan: _Plan, opened: Mapping[str, Record]) -> list[OpenedCall]:
    """The calls that were opened and are not booked. The opening of a booked call adds nothing."""
    calls = []
    for record in opened.values():
        if record.rid in plan.latest:
            continue
        try:
            calls.append(decode_opened(record.payload))
        except UNREADABLE as error:
            plan.booked.failures.append(Failure(record, "malformed", str(error)))
    return calls


def _write(
    conn: Connection,
    plan: _Plan,
    still_open: list[OpenedCall],
    prices: PriceBook,
    now_us: int,
    open_us: int,
) -> None:
    first = [entry for entry in plan.postings if entry.n == 1]
    better = [entry for entry in plan.postings if entry.n > 1]
    corrected = [entry.usage["rid"] for entry in better]
    sums = rollups.standing(conn, corrected)
    spent = costs.standing(conn, sums)
    usage.insert_events(conn, [entry.usage for entry in first])
    usage.insert_corrections(conn, [entry.usage for entry in better])
    idempotency.add(conn, _ran_under_keys(plan.postings))
    newest = {entry.usage["rid"]: entry for entry in plan.postings}
    usage.replace_explanations(
        conn,
        [entry.call for entry in newest.values() if entry.call],
        [row for entry in newest.values() for row in entry.attempts],
        corrected=corrected,
    )
    added = rollup.added(plan.postings, sums)
    rollups.add(conn, added)
    moved = capacity.of_attempts(plan.postings, spent)
    costs.add(conn, moved)
    costs.add_bought(conn, capacity.bought_of_attempts(plan.postings, spent))
    charged = [row for entry in plan.postings for row in entry.transfers]
    burns = paid_by_credits(conn, plan.postings, now_us)
    transfers.post(
        conn,
        [
            *charged,
            *burns,
            *capacity.transfers(moved, capacity.allocated(added), _name(plan.postings), now_us),
        ],
        open_us=open_us,
    )
    by_month = _by_month(conn, plan.postings, sums, burns, prices)
    charge_sums.add(conn, by_month, [*charged, *burns])
    count_budgets(conn, plan.postings, now_us)
    holds.insert_open(conn, [_open_hold(call) for call in still_open])
    holds.delete_open(conn, [*newest, *plan.ended_before])
    letters.add(conn, plan.letters)
    plan.booked.events = len(first)
    plan.booked.corrections = len(better)
    plan.booked.opened = len(still_open)


def _by_month(
    conn: Connection,
    postings: Sequence[Posting],
    before: Mapping[str, CountedCall],
    burns: Sequence[Mapping[str, Any]],
    prices: PriceBook,
) -> dict[charges.Cell, charges.Sums]:
    """The charges of a batch, summed for invoices. A former record may have been rated by another
    writer with a newer book."""
    try:
        return charges.added(postings, before, burns, prices)
    except Unrateable:
        return charges.added(postings, before, burns, book_of(conn))


def _ran_under_keys(postings: Sequence[Posting]) -> list[dict[str, Any]]:
    return [
        {
            "rid": entry.usage["rid"],
            "api_key": entry.usage["key"],
            "digest": entry.idempotency,
            "ended_us": entry.usage["ended_us"],
        }
        for entry in postings
        if entry.idempotency is not None
    ]


def _name(postings: Sequence[Posting]) -> str:
    """The name of a batch. The first record of a batch is booked once, so its name is unique."""
    return f"{postings[0].usage['rid']}:{postings[0].n}" if postings else ""


def _open_hold(call: OpenedCall) -> dict[str, Any]:
    return {
        "rid": call.rid,
        "org": call.org,
        "project": call.project,
        "key": call.key,
        "hold_nanousd": call.hold_nanousd,
        "month": call.month,
        "admitted_us": call.admitted_us,
        "idempotency": call.idempotency or None,
        "opened": msgspec.json.encode(call).decode(),
    }


def _letter(failure: Failure, now_us: int) -> dict[str, Any]:
    return {
        "shard": failure.record.shard,
        "entry": failure.record.entry,
        "kind": failure.record.kind,
        "rid": failure.record.rid,
        "reason": failure.reason,
        "detail": failure.detail,
        "payload": failure.record.payload,
        "created_us": now_us,
    }
