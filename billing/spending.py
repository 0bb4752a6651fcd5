"""What every scope has spent according to SQL: the truth behind the counters in Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from billing.limits.keys import SHARDS, shard_of
from billing.limits.types import Spent
from billing.store.engine import Store
from billing.store.sums import SpentRow, spent

ScopeSums = dict[str, Spent]


def spent_by_shard(store: Store) -> dict[int, ScopeSums]:
    """For each shard the sums of its scopes; a shard where nothing was spent is empty."""
    with store.read() as conn:
        rows = spent(conn)
    by_shard: dict[int, list[SpentRow]] = {shard: [] for shard in range(SHARDS)}
    for row in rows:
        by_shard[shard_of(row.org)].append(row)
    return {shard: spent_by_scope(found) for shard, found in by_shard.items()}


def spent_by_scope(rows: Iterable[SpentRow]) -> ScopeSums:
    """Add every row to its key, its project and its organization."""
    months: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for scope in (f"key:{row.key}", f"project:{row.project}", f"org:{row.org}"):
            months[scope][row.month] += row.amount_nanousd
    return {scope: Spent(sum(by.values()), dict(by)) for scope, by in months.items()}
