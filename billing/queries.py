"""Reads of the ledger for other parts: a call and its money, recent calls, usage by group.

Read-only, for the admin API, the tenant's own pages and the console. Never on the hot path of a
call. Amounts are nano-USD. A call is shown by its best record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from billing.db.engine import Store
from billing.decisions import store as decisions
from billing.decisions.batch import DecisionBytes
from billing.ledger import store as transfers
from billing.limits.spending import spent_by_scope
from billing.limits.types import Booked, Spent
from billing.recovery import holds
from billing.refusals import store as refusals
from billing.refusals.refusal import Refusal
from billing.types import CallStatus, UsageSource
from billing.usage import idempotency, sums
from billing.usage import store as usage
from billing.usage.rollup import SUMMED
from billing.usage.store import EVERY_CALL, CallFilter
from billing.usage.tables import NumberedRecord, Sums, UsageRecord
from billing.writer import letters

RIDS_MAX = 500


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """One line of a list of calls, and what its decision was made from: a record, or in rows of
    older releases the decision itself. None and empty where neither is kept."""

    usage: UsageRecord
    decision: dict[str, Any]
    made_from: DecisionBytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord(DecidedCall):
    """Everything the ledger knows of one request id."""

    attempts: list[dict[str, Any]]
    transfers: list[dict[str, Any]]
    records: Sequence[NumberedRecord] = ()
    """As they were booked; the last one is `usage`."""
    refusal: Refusal | None = None
    """Of a call that was refused before it was admitted."""


@dataclass(frozen=True, slots=True)
class KeyedRun:
    """A call that ran under an `Idempotency-Key`, with its charge once it is settled."""

    rid: str
    charged_nanousd: int | None


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one answered call took."""

    admitted_us: int
    ended_us: int
    first_token_us: int | None
    output: int


@dataclass(frozen=True, slots=True)
class MovedCall:
    """An answer that went on elsewhere: which pool it left, and when."""

    rid: str
    pool: str
    at_us: int


@dataclass(frozen=True, slots=True)
class CanaryCall:
    """A call that went by a rule with a canary, and on which side."""

    rule: str
    is_canary: bool
    status: CallStatus
    admitted_us: int
    first_token_us: int | None
    ended_us: int
    amount_nanousd: int
    cost_nanousd: int


@dataclass(frozen=True, slots=True)
class CanaryRefusals:
    """How many calls a side of a canary refused."""

    rule: str
    is_canary: bool
    calls: int


class GroupBy(StrEnum):
    MODEL = "model"
    KEY = "key"
    PROJECT = "project"
    ORG = "org"
    TIER = "tier"
    BATCH = "batch"
    STATUS = "status"
    POOL = "pool"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"


class UsageSum(Sums):
    """Usage of one group. `group` has the dimensions asked for; a day or an hour is its first
    microsecond. `amount_nanousd` is the sum of its parts."""

    group: dict[str, Any]

    @classmethod
    def of(cls, group: dict[str, Any], sums: Iterable[int]) -> UsageSum:
        """The usage of a group from `sums` in the order of SUMMED."""
        values: dict[str, Any] = dict(zip(SUMMED, sums, strict=True))
        return cls.model_construct(None, group=group, **values)


def call_by_rid(store: Store, rid: str, org: str | None = None) -> CallRecord | None:
    """The record of a call. None if it is not booked, or belongs to another organization than
    `org`."""
    with store.read() as conn:
        records = [_record(row) for row in usage.records_of(conn, rid)]
        if not records or (org is not None and records[-1].org != org):
            return None
        return CallRecord(
            usage=records[-1],
            records=records,
            decision=json.loads(usage.decisions_of(conn, [rid]).get(rid, "{}")),
            made_from=decisions.record_of(conn, rid),
            attempts=usage.attempts_of(conn, rid),
            transfers=transfers.of_call(conn, rid),
        )


def open_call(store: Store, rid: str, org: str | None = None) -> dict[str, Any] | None:
    """A call that was admitted and is not settled yet, as the writer read it."""
    with store.read() as conn:
        row = holds.open_of(conn, rid)
    return row if row and (org is None or row["org"] == org) else None


def newest_calls(
    store: Store,
    limit: int,
    only: CallFilter = EVERY_CALL,
    *,
    before: tuple[int, str] | None = None,
) -> list[tuple[int, NumberedRecord]]:
    """The newest calls, each with the end of its first record. `before` pages back: it is that end
    and the request id of the last call of the page before."""
    with store.read() as conn:
        rows = usage.newest(conn, limit, only, before)
    return [(ended_us, _record(row)) for ended_us, row in rows]


def recent_decided(store: Store, limit: int, org: str | None = None) -> list[DecidedCall]:
    """The newest calls by their end, each with its decision."""
    with store.read() as conn:
        records = [_record(row) for _, row in usage.newest(conn, limit, CallFilter(org))]
        rids = [record.rid for record in records]
        in_words, made_from = usage.decisions_of(conn, rids), decisions.records_of(conn, rids)
    return [
        DecidedCall(used, json.loads(in_words.get(used.rid, "{}")), made_from.get(used.rid))
        for used in records
    ]


def decision_made(store: Store, rid: str) -> DecisionBytes | None:
    """What the decision of a call was made from, as long as that is kept."""
    with store.read() as conn:
        return decisions.record_of(conn, rid)


def newest_refusals(
    store: Store,
    limit: int,
    equals: Mapping[str, str],
    *,
    before: tuple[int, str] | None = None,
) -> list[Refusal]:
    """Refused calls, the newest first, that have these values. `before` pages back: it is the
    instant and the id of the last row of the page before."""
    with store.read() as conn:
        return refusals.newest(conn, limit, equals, before)


def refused_call(store: Store, rid: str) -> tuple[Refusal | None, DecisionBytes | None]:
    """What is kept of a call that is not booked: its row in the list of refusals, if it has one of
    its own, and what its decision was made from."""
    with store.read() as conn:
        return refusals.of_call(conn, rid), decisions.record_of(conn, rid)


def canary_calls(
    store: Store, policy_revision: int, from_us: int, to_us: int, limit: int
) -> list[CanaryCall]:
    """The newest `limit` calls that a version of the policy sent on by rules with a canary, and
    that ended in [from, to)."""
    with store.read() as conn:
        rows = usage.of_canaries(conn, policy_revision, from_us, to_us, limit)
    return [
        CanaryCall(rule, bool(is_canary), CallStatus(status), *others)
        for rule, is_canary, status, *others in rows
    ]


def canary_refusals(
    store: Store, policy_revision: int, from_us: int, to_us: int, reasons: Sequence[str]
) -> list[CanaryRefusals]:
    """Calls that a version of the policy refused for one of these reasons, by rules with a
    canary."""
    with store.read() as conn:
        rows = refusals.by_side(conn, policy_revision, from_us, to_us, reasons)
    return [CanaryRefusals(*row) for row in rows]


def newest_decisions(store: Store, since_us: int) -> Iterator[DecisionBytes]:
    """What decisions since an instant were made from, the newest batches first."""
    return decisions.recorded_since(store, since_us, newest_first=True)


def timings(store: Store, from_us: int, to_us: int, limit: int) -> list[Timing]:
    """Timings of the newest `limit` answered calls that ended in [from_us, to_us), newest first."""
    with store.read() as conn:
        return [Timing(*row) for row in usage.timings(conn, from_us, to_us, limit)]


def moves(store: Store, from_us: int, to_us: int, limit: int) -> list[MovedCall]:
    """The newest `limit` moves of attempts that started in [from_us, to_us), newest first."""
    with store.read() as conn:
        return [MovedCall(*row) for row in usage.moves(conn, from_us, to_us, limit)]


def usage_summary(
    store: Store,
    org: str | None,
    from_us: int,
    to_us: int,
    group_by: Sequence[GroupBy] = (),
    only: Mapping[GroupBy, Sequence[Any]] | None = None,
    *,
    after: Sequence[Any] = (),
    limit: int | None = None,
) -> list[UsageSum]:
    """Usage of calls whose first record ended in [from_us, to_us), by their best records. It is
    summed by the groups asked for, in their order. `only` keeps calls with one of the values named.
    There are at most `limit` groups, from the first one after the group `after`.

    Whole days and hours cost a look at their sums. An hour that the range cuts costs its own
    events. A group by the hour is read from hours alone, one by the minute from events. A caller
    that asks for such a group bounds the range with `busy_until`.
    """
    filters = {str(name): list(values) for name, values in (only or {}).items()}
    if org is not None:
        filters["org"] = [org]
    with store.read() as conn:
        rows = sums.summary(
            conn, from_us, to_us, list(map(str, group_by)), filters, after=after, limit=limit
        )
    return [UsageSum.of(group, counts) for group, counts in rows]


def busy_until(store: Store, org: str | None, from_us: int, to_us: int, events_max: int) -> int:
    """The instant of [from_us, to_us) up to which there are at most so many events."""
    with store.read() as conn:
        return usage.passed(conn, org, from_us, to_us, events_max) or to_us


def summed(rows: Iterable[UsageSum], group_by: Sequence[GroupBy]) -> list[UsageSum]:
    """The usage by fewer dimensions, in the order in which groups first come."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        group = tuple(row.group[name] for name in group_by)
        counts = sums.setdefault(group, [0] * len(SUMMED))
        counts[:] = [count + getattr(row, name) for count, name in zip(counts, SUMMED, strict=True)]
    return [
        UsageSum.of(dict(zip(map(str, group_by), group, strict=True)), counts)
        for group, counts in sums.items()
    ]


def spent_by_scopes(store: Store, org: str | None = None) -> dict[str, Spent]:
    """The amount that each scope has spent, in all and by month of admission."""
    with store.read() as conn:
        return spent_by_scope(sums.spent(conn, org))


def known(store: Store, rids: Sequence[str]) -> dict[str, Booked]:
    """The records of these request ids, for recovery. An unknown id is absent. A call that is not
    booked and whose dead letter was judged counts as booked for nothing."""
    by_rid: dict[str, Booked] = {}
    with store.read() as conn:
        for start in range(0, len(rids), RIDS_MAX):
            batch = rids[start : start + RIDS_MAX]
            for rid in letters.written_off(conn, batch):
                by_rid[rid] = Booked(UsageSource.EXACT, 0)
            for rid, record in usage.latest(conn, batch).items():
                by_rid[rid] = Booked(UsageSource(record.source), record.amount_nanousd)
    return by_rid


def run_under_key(store: Store, api_key: str, digest: str, since_us: int) -> KeyedRun | None:
    """The call that ran under a key of an API key, and is open or ended since an instant. A call
    that failed and cost nothing holds no key. A call whose gateway was lost may have cost
    something, so it holds its key."""
    with store.read() as conn:
        for rid in idempotency.ended_under(conn, api_key, digest, since_us):
            *_, row = usage.records_of(conn, rid)  # a key is written with the usage of its call
            is_certain = row["source"] == UsageSource.EXACT
            if not is_certain or row["status"] == CallStatus.ANSWERED or row["amount_nanousd"]:
                return KeyedRun(rid, row["amount_nanousd"])
        rid_open = holds.open_under(conn, api_key, digest)
    return None if rid_open is None else KeyedRun(rid_open, None)


def is_open(store: Store, rid: str) -> bool:
    """Whether a call was admitted and is not settled, as the writer read it."""
    with store.read() as conn:
        return bool(holds.known_open(conn, [rid]))


def accounts(
    store: Store, *, behind: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Accounts by their codes, from the one behind a code."""
    with store.read() as conn:
        return transfers.accounts(conn, behind=behind, limit=limit)


def recent_transfers(
    store: Store,
    limit: int,
    org: str | None = None,
    *,
    rid: str | None = None,
    before: tuple[int, str] | None = None,
) -> list[dict[str, Any]]:
    with store.read() as conn:
        return transfers.recent(conn, limit, org, rid=rid, before=before)


def _record(row: dict[str, Any]) -> NumberedRecord:
    values = {name: row[name] for name in UsageRecord.model_fields}
    numbered = {"batch": bool(row["batch"]), "n": row.get("n", 1)}
    return NumberedRecord.model_construct(**{**values, **numbered})
