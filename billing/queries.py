"""What others ask of the ledger: a call and its money, recent calls, usage by group.

Read-only, for the admin API, the tenant's own pages and the console; never on the hot path of a
call. Amounts are nano-USD; what is shown of a call is its best record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from billing.limits.types import Booked, Spent
from billing.spending import spent_by_scope
from billing.store import holds, letters, sums, transfers, usage
from billing.store.engine import Store
from billing.types import UsageSource

RIDS_MAX = 500


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One call as it is booked. `charge` parts add up to `amount_nanousd`."""

    rid: str
    org: str
    project: str
    key: str
    gateway: str
    model_requested: str
    model: str
    variant: str
    pool: str
    capacity_class: str
    tier: str
    batch: bool
    status: str
    finish_reason: str | None
    error_code: str | None
    source: str
    input: int
    cached_input: int
    output: int
    price_version: str
    input_nanousd: int
    cached_input_nanousd: int
    output_nanousd: int
    request_nanousd: int
    amount_nanousd: int
    month: str
    admitted_us: int
    first_token_us: int | None
    ended_us: int
    ingested_us: int
    cache_write: int = 0
    reasoning: int = 0
    gpu_ms: int = 0
    cache_write_nanousd: int = 0
    reasoning_nanousd: int = 0
    gpu_ms_nanousd: int = 0
    minimum_nanousd: int = 0
    cost_nanousd: int = 0
    """What it cost us; what its other attempts cost stands with them."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """Everything the ledger knows of one request id."""

    usage: UsageRecord
    decision: dict[str, Any]
    attempts: list[dict[str, Any]]
    transfers: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class DecidedCall:
    """One line of a list of calls, with why it went where it went."""

    usage: UsageRecord
    decision: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Timing:
    """How long one answered call took."""

    admitted_us: int
    ended_us: int
    first_token_us: int | None
    output: int


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


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Usage of one group; `group` has the asked dimensions, a day or hour as its first us.
    `amount_nanousd` is the sum of its parts."""

    group: dict[str, Any]
    requests: int
    input: int
    cached_input: int
    output: int
    amount_nanousd: int
    input_nanousd: int = 0
    cached_input_nanousd: int = 0
    output_nanousd: int = 0
    request_nanousd: int = 0
    cache_write: int = 0
    reasoning: int = 0
    gpu_ms: int = 0
    cache_write_nanousd: int = 0
    reasoning_nanousd: int = 0
    gpu_ms_nanousd: int = 0
    minimum_nanousd: int = 0
    cost_nanousd: int = 0
    """What the calls cost us."""


SUMS = tuple(name for name in UsageSum.__dataclass_fields__ if name != "group")


def call_by_rid(store: Store, rid: str, org: str | None = None) -> CallRecord | None:
    """A call, if it is booked and, where `org` is given, belongs to it."""
    with store.read() as conn:
        row = usage.current_of(conn, rid)
        if row is None or (org is not None and row["org"] != org):
            return None
        return CallRecord(
            usage=_record(row),
            decision=json.loads(usage.decision_of(conn, rid) or "{}"),
            attempts=usage.attempts_of(conn, rid),
            transfers=transfers.of_call(conn, rid),
        )


def open_call(store: Store, rid: str, org: str | None = None) -> dict[str, Any] | None:
    """A call that was admitted and is not settled yet, as the writer read it."""
    with store.read() as conn:
        row = holds.open_of(conn, rid)
    return row if row and (org is None or row["org"] == org) else None


def recent_calls(store: Store, limit: int, org: str | None = None) -> list[UsageRecord]:
    """The newest calls by their end."""
    with store.read() as conn:
        return [_record(row) for row in usage.recent(conn, limit, org)]


def calls_ended_in(
    store: Store, from_us: int, to_us: int, limit: int, *, before: tuple[int, str] | None = None
) -> list[tuple[int, UsageRecord]]:
    """Calls whose first record ended in [from, to), the newest first, each with that end; `before`,
    the end and the request id of the last one seen, pages back."""
    with store.read() as conn:
        found = usage.ended_in(conn, from_us, to_us, limit, before)
    return [(ended_us, _record(row)) for ended_us, row in found]


def recent_decided(store: Store, limit: int, org: str | None = None) -> list[DecidedCall]:
    """The newest calls by their end, each with its decision."""
    with store.read() as conn:
        found = [_record(row) for row in usage.recent(conn, limit, org)]
        decisions = usage.decisions_of(conn, [record.rid for record in found])
    return [DecidedCall(used, json.loads(decisions.get(used.rid, "{}"))) for used in found]


def timings(store: Store, from_us: int, to_us: int, limit: int) -> list[Timing]:
    """Of the newest `limit` answered calls that ended in [from_us, to_us), the newest first."""
    with store.read() as conn:
        return [Timing(*row) for row in usage.timings(conn, from_us, to_us, limit)]


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
    """Usage of calls whose first record ended in [from_us, to_us), by its best record, summed by
    the groups asked for, in their order; `only` keeps those with one of the values named. `limit`
    groups at most, from the first one after the group `after`.

    Whole days and hours cost a look at their sums; an hour that the range cuts costs its own
    events. A group by the hour is read from hours alone, one by the minute from events: who asks
    for that bounds the range with `busy_until`.
    """
    filters = {str(name): list(values) for name, values in (only or {}).items()}
    if org is not None:
        filters["org"] = [org]
    with store.read() as conn:
        rows = sums.summary(
            conn, from_us, to_us, list(map(str, group_by)), filters, after=after, limit=limit
        )
    return [UsageSum(group, *counted) for group, counted in rows]


def busy_until(store: Store, org: str | None, from_us: int, to_us: int, events_max: int) -> int:
    """Up to which instant of [from_us, to_us) there are at most so many events."""
    with store.read() as conn:
        return usage.passed(conn, org, from_us, to_us, events_max) or to_us


def summed(rows: Iterable[UsageSum], group_by: Sequence[GroupBy]) -> list[UsageSum]:
    """The same usage by fewer dimensions, in the order in which groups first come."""
    sums: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        group = tuple(row.group[name] for name in group_by)
        counts = sums.setdefault(group, [0] * len(SUMS))
        counts[:] = [count + getattr(row, name) for count, name in zip(counts, SUMS, strict=True)]
    return [
        UsageSum(dict(zip(map(str, group_by), group, strict=True)), *counts)
        for group, counts in sums.items()
    ]


def spent_by_scopes(store: Store, org: str | None = None) -> dict[str, Spent]:
    """What each scope has spent, in all and by month of admission."""
    with store.read() as conn:
        return spent_by_scope(sums.spent(conn, org))


def known(store: Store, rids: Sequence[str]) -> dict[str, Booked]:
    """What is on record of these request ids, for recovery; those unknown are absent. A call whose
    dead letter was judged, and that is not booked, is as good as booked for nothing."""
    found: dict[str, Booked] = {}
    with store.read() as conn:
        for start in range(0, len(rids), RIDS_MAX):
            batch = rids[start : start + RIDS_MAX]
            for rid in letters.written_off(conn, batch):
                found[rid] = Booked(UsageSource.EXACT, 0)
            for rid, record in usage.latest(conn, batch).items():
                found[rid] = Booked(UsageSource(record.source), record.amount_nanousd)
    return found


def known_rids(store: Store, rids: Sequence[str]) -> set[str]:
    return set(known(store, rids))


def accounts(store: Store) -> list[dict[str, Any]]:
    with store.read() as conn:
        return transfers.accounts(conn)


def recent_transfers(store: Store, limit: int, org: str | None = None) -> list[dict[str, Any]]:
    with store.read() as conn:
        return transfers.recent(conn, limit, org)


def _record(row: dict[str, Any]) -> UsageRecord:
    values = {name: row[name] for name in UsageRecord.__dataclass_fields__}
    return UsageRecord(**{**values, "batch": bool(row["batch"])})
