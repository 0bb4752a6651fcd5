"""Adds what calls cost to the budgets that bound them, and raises alerts. Both happen in the
transaction of the charge, so sums and charges never differ.

A call counts in the bucket of its first record. A correction adds the difference to that bucket.
Guards that the sum of every bucket is that of the best records of its calls. Guards also that a
threshold raises one alert in a period, or one in a rolling span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from billing.budgets import store as rows
from billing.budgets.budget import Budget, reached
from billing.budgets.store import Bucket
from billing.budgets.windows import Rolling
from billing.ledger.posting import Posting
from billing.types import BudgetShare


@dataclass(slots=True)
class _Moved:
    """What a batch changes: the nano-USD to add to each bucket, and until when the bucket
    counts."""

    added: Counter[Bucket] = field(default_factory=Counter)
    until_us: dict[Bucket, int] = field(default_factory=dict)
    links: list[dict[str, Any]] = field(default_factory=list)


def count_budgets(conn: Connection, postings: Sequence[Posting], now_us: int) -> None:
    """Count postings in their budgets. SQL is not asked where no budget binds any of them."""
    bound = [posting for posting in postings if posting.budgets]
    if not bound:
        return
    moved = _first_records(posting for posting in bound if posting.n == 1)
    rows.insert_counted(conn, moved.links)
    corrections = [posting for posting in bound if posting.n > 1]
    if corrections:
        places = rows.counted(conn, [posting.usage["rid"] for posting in corrections])
        _corrections(moved, corrections, places)
    rows.add_spent(
        conn,
        [(*bucket, moved.until_us[bucket], amount) for bucket, amount in moved.added.items()],
    )
    _raise_alerts(conn, [bucket for bucket, amount in moved.added.items() if amount > 0], now_us)


def _first_records(postings: Iterable[Posting]) -> _Moved:
    moved = _Moved()
    for posting in postings:
        for share in posting.budgets:
            bucket = share.budget, share.subject, share.bucket_us(posting.counts_us)
            moved.added[bucket] += posting.difference_nanousd
            moved.until_us[bucket] = _until_us(share, bucket)
            moved.links.append(
                {
                    "rid": posting.usage["rid"],
                    "budget_id": share.budget,
                    "subject": share.subject,
                    "bucket_us": bucket[2],
                }
            )
    return moved


def _corrections(
    moved: _Moved, postings: Sequence[Posting], places: Mapping[str, Sequence[Bucket]]
) -> None:
    for posting in postings:
        shares = {share.budget: share for share in posting.budgets}
        for bucket in places.get(posting.usage["rid"], ()):
            moved.added[bucket] += posting.difference_nanousd
            moved.until_us.setdefault(bucket, _until_us(shares.get(bucket[0]), bucket))


def _until_us(share: BudgetShare | None, bucket: Bucket) -> int:
    """A part of a rolling span counts until the span has wholly left it."""
    if share is None:
        return 0
    return bucket[2] + share.width_us + share.span_us if share.width_us else share.until_us


def _raise_alerts(conn: Connection, touched: Sequence[Bucket], now_us: int) -> None:
    if not touched:
        return
    watched = {
        budget_id: budget
        for budget_id, budget in rows.of_ids(conn, sorted({b for b, _, _ in touched})).items()
        if budget.alert_percents
    }
    buckets = sorted(bucket for bucket in touched if bucket[0] in watched)
    periods = [b for b in buckets if not isinstance(watched[b[0]].window, Rolling)]
    alerts = [
        alert
        for bucket, spent in rows.spent_in(conn, periods).items()
        for alert in _alerts(watched[bucket[0]], bucket, spent, now_us)
    ]
    for bucket in sorted(set(buckets) - set(periods)):
        alerts += _of_span(conn, watched[bucket[0]], bucket, now_us)
    rows.insert_alerts(conn, alerts)


def _of_span(conn: Connection, budget: Budget, bucket: Bucket, now_us: int) -> list[dict[str, Any]]:
    """The alerts of the rolling span that ends with this bucket. A percentage that has an alert
    within the span already gets no second one."""
    assert isinstance(budget.window, Rolling)
    budget_id, subject, last_us = bucket
    first_us = budget.window.oldest_us(last_us)
    spent = rows.spent_between(conn, budget_id, subject, first_us, last_us)
    percents = rows.raised_since(conn, budget_id, subject, first_us)
    return [
        alert
        for alert in _alerts(budget, bucket, spent, now_us)
        if alert["percent"] not in percents
    ]


def _alerts(budget: Budget, bucket: Bucket, spent: int, now_us: int) -> list[dict[str, Any]]:
    budget_id, subject, bucket_us = bucket
    return [
        {
            "budget_id": budget_id,
            "subject": subject,
            "bucket_us": bucket_us,
            "percent": percent,
            "org": budget.org,
            "spent_nanousd": spent,
            "amount_nanousd": budget.amount_nanousd,
            "raised_us": now_us,
        }
        for percent in reached(budget, spent)
    ]
