"""What every scope has spent according to SQL, which is the truth behind the counters in Redis."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from billing.budgets import store as budgets
from billing.budgets.budget import share_in
from billing.db.engine import Store
from billing.limits.keys import SHARDS, shard_of
from billing.limits.state import PURSE_TTL_MS
from billing.limits.types import HardBudget, PurseSpent, Spent, purse_of
from billing.usage.sums import SpentRow, spent

ScopeSums = dict[str, Spent]


def spent_by_shard(store: Store) -> dict[int, ScopeSums]:
    """For each shard the sums of its scopes; a shard where nothing was spent is empty."""
    with store.read() as conn:
        rows = spent(conn)
    by_shard: dict[int, list[SpentRow]] = {shard: [] for shard in range(SHARDS)}
    for row in rows:
        by_shard[shard_of(row.org)].append(row)
    return {shard: spent_by_scope(of_shard) for shard, of_shard in by_shard.items()}


def purses_by_shard(store: Store, now_us: int) -> dict[int, list[PurseSpent]]:
    """What each hard budget has spent, by shard. Every period that a call may still ask for is
    there, and of rolling spans the parts that count."""
    with store.read() as conn:
        rows = budgets.spent_of_hard(conn, now_us - PURSE_TTL_MS * 1000)
    by_shard: dict[int, dict[HardBudget, dict[int, int]]] = {shard: {} for shard in range(SHARDS)}
    for budget, row in rows:
        purse = purse_of(share_in(budget, row.subject, row.bucket_us, row.until_us), 0)
        parts = by_shard[shard_of(budget.org)].setdefault(purse, {})
        parts[row.bucket_us] = row.amount_nanousd
    return {
        shard: [PurseSpent(purse, tuple(sorted(parts.items()))) for purse, parts in of.items()]
        for shard, of in by_shard.items()
    }


def spent_by_scope(rows: Iterable[SpentRow]) -> ScopeSums:
    """Add every row to its key, its project and its organization."""
    months: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        for scope in (f"key:{row.key}", f"project:{row.project}", f"org:{row.org}"):
            months[scope][row.month] += row.amount_nanousd
    return {scope: Spent(sum(by.values()), dict(by)) for scope, by in months.items()}
