"""Where an organization stands with its credits."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.credits import grants as credit_grants
from billing.credits.credit import CreditLine
from billing.credits.grants import StoredGrant
from billing.db.engine import Store
from billing.money import NANOUSD_PER_USD
from gateway.admin.credits.service import GrantNow
from gateway.api.dependencies import parts_of
from gateway.api.pages import LIMIT_MAX
from gateway.call.admission import Accounts
from gateway.tenants.auth import Principal
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class CreditBalance:
    """`granted_nanousd` is what was ever spent and is not owed, and what grants in force have left;
    `may_owe_nanousd` is None where nothing bounds what may be owed."""

    organization: str
    granted_nanousd: int
    spent_nanousd: int
    held_nanousd: int
    may_owe_nanousd: int | None
    grants: Sequence[GrantNow]

    @property
    def totals(self) -> "CreditBalance":
        return self

    @property
    def total_credits(self) -> float:
        return self.granted_nanousd / NANOUSD_PER_USD

    @property
    def total_usage(self) -> float:
        return self.spent_nanousd / NANOUSD_PER_USD

    @property
    def balance_nanousd(self) -> int:
        return self.granted_nanousd - self.spent_nanousd

    @property
    def available_nanousd(self) -> int | None:
        if self.may_owe_nanousd is None:
            return None
        return max(0, self.balance_nanousd + self.may_owe_nanousd - self.held_nanousd)


@dataclass(frozen=True, slots=True)
class CreditBalances:
    ledger: Store
    accounts: Accounts
    clock: Clock

    async def of(self, caller: Principal) -> CreditBalance:
        """Raises ApiError 503 where Redis is away."""
        organization = caller.organization
        line, grants = await asyncio.to_thread(self._credits, organization)
        money = await self.accounts.money(organization)
        now_us = round(self.clock() * 1e6)
        in_force = [
            rest_of_grant.left_nanousd
            for rest_of_grant in line.grants
            if rest_of_grant.is_in_force(now_us)
        ]
        return CreditBalance(
            organization=organization,
            granted_nanousd=line.cleared_nanousd + sum(in_force),
            spent_nanousd=money.spent.total_nanousd,
            held_nanousd=money.held_nanousd,
            may_owe_nanousd=caller.may_owe_nanousd,
            grants=[GrantNow.of(grant, now_us) for grant in grants],
        )

    def _credits(self, organization: str) -> tuple[CreditLine, list[StoredGrant]]:
        return (
            credit_grants.line_of(self.ledger, organization),
            credit_grants.every(self.ledger, organization, limit=LIMIT_MAX),
        )


async def balances_of(request: Request) -> CreditBalances:
    parts = parts_of(request)
    return CreditBalances(parts.ledger, parts.accounts, parts.outside.clock)


Balances = Annotated[CreditBalances, Depends(balances_of)]
