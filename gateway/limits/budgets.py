"""Budgets as gateways see them: which ones bind a key, and how they stand.

Which bind a key is read with the key, off the event loop, and forgotten with it when the catalog
revision moves: no SQL is on the path of a call. What is held and spent of a hard one is asked of
Redis, which enforces it; what is spent of a soft one, of the ledger's sums.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from billing.budgets import store as rows
from billing.budgets.budget import EACH_USER, Budget, digest_of, share_of
from billing.budgets.windows import Calendar, Rolling, period_of
from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.types import HardBudget, LimitsUnavailable, purse_of
from gateway.errors import overloaded
from routing.types import Clock

RETRY_S = 1.0

Bound = tuple[Budget, str]
"""A budget that binds a call, and the subject that its cost stands under."""


@dataclass(frozen=True, slots=True)
class KeyBudgets:
    """Those of the owners of a key. `every_user` bind whichever end user has none of its own with
    the same owner; `has_users_apart`: some end user has."""

    own: tuple[Bound, ...] = ()
    every_user: tuple[Budget, ...] = ()
    has_users_apart: bool = False
    has_hard_apart: bool = False

    @property
    def are_of_users(self) -> bool:
        return bool(self.every_user) or self.has_users_apart

    @property
    def ask_for_user(self) -> bool:
        """A cap that is evaded by leaving out a field is none; what only watches asks nothing."""
        return self.has_hard_apart or any(budget.is_hard for budget in self.every_user)

    @property
    def are_hard(self) -> bool:
        return self.ask_for_user or any(budget.is_hard for budget, _ in self.own)


UNBUDGETED = KeyBudgets()


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands for one subject; `held_nanousd` is None where nothing is held."""

    amount_nanousd: int
    spent_nanousd: int
    held_nanousd: int | None
    starts_us: int | None
    resets_us: int | None

    @property
    def left_nanousd(self) -> int:
        return max(0, self.amount_nanousd - self.spent_nanousd - (self.held_nanousd or 0))


@dataclass(frozen=True, slots=True)
class StandingBudget:
    """A budget and how it stands; of one for each end user nobody knows unless one is named."""

    budget: Budget
    standing: Standing | None


class Standings:
    """Asks how budgets stand; `now_us` of a calendar says which period is meant."""

    def __init__(self, holds: Holds, ledger: Store, clock: Clock) -> None:
        self._holds = holds
        self._ledger = ledger
        self._clock = clock

    async def of(self, bound: Sequence[Bound]) -> list[Standing]:
        """One for each. Raises ApiError 503 where Redis is away and a hard one is asked for."""
        now_us = round(self._clock() * 1e6)
        hard = [(budget, subject) for budget, subject in bound if budget.is_hard]
        soft = [(budget, subject) for budget, subject in bound if not budget.is_hard]
        budgets_of_owner: dict[tuple[str, str], tuple[int, int | None]] = {}
        budgets_of_owner |= await self._in_redis(hard, now_us)
        if soft:
            budgets_of_owner |= await asyncio.to_thread(self._in_sql, soft, now_us)
        return [
            _standing(budget, budgets_of_owner[budget.budget_id, s], now_us) for budget, s in bound
        ]

    async def of_budgets(
        self, budgets: Sequence[Budget], end_user: str | None = None
    ) -> list[StandingBudget]:
        """Those of each end user as they stand for the one who is named. Raises ApiError 503."""
        bound = [
            (budget, digest_of(end_user) if end_user and budget.end_user else budget.subject)
            for budget in budgets
            if budget.end_user != EACH_USER or end_user
        ]
        standings = await self.of(bound)
        by_id = {budget.budget_id: each for (budget, _), each in zip(bound, standings, strict=True)}
        return [StandingBudget(budget, by_id.get(budget.budget_id)) for budget in budgets]

    async def _in_redis(
        self, bound: Sequence[Bound], now_us: int
    ) -> dict[tuple[str, str], tuple[int, int | None]]:
        by_org: dict[str, list[tuple[Bound, HardBudget]]] = defaultdict(list)
        for budget, subject in bound:
            purse = purse_of(share_of(budget, subject, now_us), budget.amount_nanousd)
            by_org[budget.org].append(((budget, subject), purse))
        budgets_of_owner: dict[tuple[str, str], tuple[int, int | None]] = {}
        for org, purses in by_org.items():
            try:
                money = await self._holds.purses(org, [p for _, p in purses], now_us=now_us)
            except LimitsUnavailable as away:
                raise overloaded("The limiter is out of reach.", RETRY_S) from away
            for ((budget, subject), _), (held, spent) in zip(purses, money, strict=True):
                budgets_of_owner[budget.budget_id, subject] = spent, held
        return budgets_of_owner

    def _in_sql(
        self, bound: Sequence[Bound], now_us: int
    ) -> dict[tuple[str, str], tuple[int, int | None]]:
        with self._ledger.read() as conn:
            return {
                (budget.budget_id, subject): (rows.spent_now(conn, budget, subject, now_us), None)
                for budget, subject in bound
            }


def period_now(budget: Budget, now_us: int) -> tuple[int | None, int | None]:
    """When the period that counts now began, and when the next one does; a rolling span has none:
    it ends now, and goes on."""
    match budget.window:
        case Calendar() as calendar:
            period = period_of(calendar, now_us)
            return period.start_us, period.end_us
        case Rolling() as rolling:
            return now_us - rolling.span_us, None
        case _:
            return None, None


def _standing(budget: Budget, money: tuple[int, int | None], now_us: int) -> Standing:
    return Standing(budget.amount_nanousd, *money, *period_now(budget, now_us))


def key_budgets(budgets_of_owner: Sequence[Budget], apart: Sequence[Budget]) -> KeyBudgets:
    """`apart` are those of single end users, or one of them for all: that there are any counts."""
    return KeyBudgets(
        own=tuple((budget, "") for budget in budgets_of_owner if not budget.end_user),
        every_user=tuple(budget for budget in budgets_of_owner if budget.end_user),
        has_users_apart=bool(apart),
        has_hard_apart=any(budget.is_hard for budget in apart),
    )


def of_user(every_user: Sequence[Budget], own: Sequence[Budget], digest: str) -> tuple[Bound, ...]:
    """Those that bind one end user: with each owner its own, or else those of everybody."""
    owners = {budget.owner for budget in own}
    others = [budget for budget in every_user if budget.owner not in owners]
    return tuple((budget, digest) for budget in (*own, *others))
