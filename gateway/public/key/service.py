"""How the calling key stands: its limits, and what is left of its money."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import Depends, Request

from billing.budgets.budget import Budget
from billing.limits.types import ScopeLimits
from gateway.api.dependencies import parts_of
from gateway.call.admission import Accounts
from gateway.limits.budgets import KeyBudgets, StandingBudget, Standings
from gateway.tenants.auth import Narrow, Principal
from gateway.tenants.entitlement import EntitlementFields, entitlement_of
from gateway.tenants.store import EVERY_USER


@dataclass(frozen=True, slots=True)
class LimitsSpending:
    """Limits of a scope of the key, with what is spent and held of their budget."""

    limits: ScopeLimits
    spent_nanousd: int
    held_nanousd: int

    @property
    def spending(self) -> "LimitsSpending":
        return self

    @property
    def remaining_nanousd(self) -> int | None:
        limit = self.limits.budget_nanousd
        return None if limit is None else max(0, limit - self.spent_nanousd - self.held_nanousd)


@dataclass(frozen=True, slots=True)
class KeyStanding:
    caller: Principal
    may_use: EntitlementFields
    scopes: Sequence[LimitsSpending]
    narrow_limits: Sequence[ScopeLimits]
    budgets: Sequence[StandingBudget]

    @property
    def expires_us(self) -> int | None:
        expires_s = self.caller.expires_s
        return None if expires_s is None else round(expires_s * 1e6)

    @property
    def end_user_required(self) -> bool:
        return self.caller.narrow.asks_for_user or self.caller.budgets.ask_for_user


@dataclass(frozen=True, slots=True)
class KeyStandings:
    accounts: Accounts
    standings: Standings

    async def of(self, caller: Principal) -> KeyStanding:
        """Raises ApiError 503 where Redis is away."""
        return KeyStanding(
            caller=caller,
            may_use=entitlement_of(caller.leave),
            scopes=[await self._spending(caller, limits) for limits in caller.scopes],
            narrow_limits=[*_narrow(caller.narrow)],
            budgets=await self.standings.of_budgets(_all(caller.budgets)),
        )

    async def _spending(self, caller: Principal, limits: ScopeLimits) -> LimitsSpending:
        money = await self.accounts.spent_and_held(caller.organization, limits)
        return LimitsSpending(limits, *money)


def _narrow(narrow: Narrow) -> Iterator[ScopeLimits]:
    """Of models, and of every end user that has none of its own."""
    for of_model in narrow.models.values():
        yield from of_model
    for limits in narrow.every_user:
        yield replace(limits, scope=f"{limits.scope}{EVERY_USER}")


def _all(budgets: KeyBudgets) -> list[Budget]:
    return [*(budget for budget, _ in budgets.own), *budgets.every_user]


async def standings_of(request: Request) -> KeyStandings:
    parts = parts_of(request)
    return KeyStandings(parts.accounts, parts.standings)


OwnStandings = Annotated[KeyStandings, Depends(standings_of)]
