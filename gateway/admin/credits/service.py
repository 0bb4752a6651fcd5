"""Credits as an administrator keeps them, over `billing.credits`.

What a grant still has is the ledger's; it is a moment behind what calls have spent.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

from fastapi import Depends, Request

from billing.credits import alerts
from billing.credits import grants as credit_grants
from billing.credits.credit import Grant, GrantStatus
from billing.credits.grants import CreditError, GrantConflict, StoredGrant, UnknownGrant
from billing.credits.watch import Threshold, ThresholdUnit, Watch
from billing.db.engine import Store
from gateway.admin.credits.schemas import CreditAlertsBody, GrantBody
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.fields import require_future
from gateway.api.pages import RowsById, rows_by_id
from gateway.catalog.tables import ModelRow
from gateway.errors import ApiError, bad_request
from gateway.limits.credits import CreditLines
from gateway.tenants.ids import NewId
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class GrantNow:
    """A grant as it stands at an instant."""

    grant: Grant
    left_nanousd: int
    note: str
    status: GrantStatus

    @classmethod
    def of(cls, row: StoredGrant, now_us: int) -> "GrantNow":
        grant, left_nanousd = row.grant, row.left_nanousd
        return cls(grant, left_nanousd, row.note, grant.status(left_nanousd, now_us))


class Levels(NamedTuple):
    """Thresholds by their units, each in order."""

    below_nanousd: list[int]
    below_percent: list[int]

    @classmethod
    def of(cls, thresholds: Iterable[Threshold]) -> "Levels":
        ordered = sorted(thresholds)
        return cls(
            [value for unit, value in ordered if unit is ThresholdUnit.NANOUSD],
            [value for unit, value in ordered if unit is ThresholdUnit.PERCENT],
        )


class WatchedCredit(NamedTuple):
    """What is told of an organization's credit, as it was last looked at."""

    org: str
    below_nanousd: list[int]
    below_percent: list[int]
    granted_nanousd: int
    left_nanousd: int
    told: Levels

    @classmethod
    def of(cls, watch: Watch) -> "WatchedCredit":
        return cls(
            watch.org,
            *Levels.of(watch.thresholds),
            watch.granted_nanousd,
            watch.left_nanousd,
            Levels.of(watch.below),
        )


@dataclass(frozen=True, slots=True)
class CreditService:
    """Raises ApiError: 404 for an unknown grant or organization, 409 for a contradiction, 400 for
    a grant that cannot be given."""

    ledger: Store
    tenants: TenantStore
    lines: CreditLines
    new_id: NewId
    clock: Clock

    async def give(self, body: GrantBody) -> tuple[GrantNow, bool]:
        """The grant, and whether it is new."""
        now_us = self._now_us
        require_future(body.expires_at, now_us / 1e6)
        grant = self._grant(body, now_us)
        row, is_new = await self._run(lambda: self._give(grant, now_us, body.note))
        await self._learn(grant.org)
        return GrantNow.of(row, now_us), is_new

    def _grant(self, body: GrantBody, now_us: int) -> Grant:
        return Grant(
            grant_id=body.id or self.new_id("grant"),
            org=body.organization,
            category=body.category,
            amount_nanousd=body.amount_usd,
            priority=body.priority,
            effective_us=now_us if body.effective_at is None else body.effective_at,
            created_us=now_us,
            expires_us=body.expires_at,
            models=tuple(body.models),
        )

    def _give(self, grant: Grant, now_us: int, note: str) -> tuple[StoredGrant, bool]:
        self._must_be_there(grant.org)
        for model in grant.models:
            if self.tenants.one(ModelRow, model) is None:
                raise CreditError(f"there is no model {model!r}")
        return credit_grants.give(self.ledger, grant, created_by=ADMIN, now_us=now_us, note=note)

    async def page(
        self, organization: str | None, after: str | None, limit: int
    ) -> RowsById[GrantNow, str]:
        """The oldest first."""
        now_us = self._now_us
        try:
            grants = await asyncio.to_thread(
                lambda: credit_grants.every(self.ledger, organization, after=after, limit=limit + 1)
            )
        except UnknownGrant as unknown:
            raise bad_request("after: No grant has this id.", "after") from unknown
        rows = [GrantNow.of(each, now_us) for each in grants]
        return rows_by_id(rows, limit, lambda row: row.grant.grant_id)

    async def grant(self, grant_id: str) -> GrantNow:
        row = await self._run(lambda: credit_grants.one(self.ledger, grant_id))
        return GrantNow.of(row, self._now_us)

    async def void(self, grant_id: str) -> GrantNow:
        now_us = self._now_us
        row = await self._run(
            lambda: credit_grants.void(self.ledger, grant_id, voided_by=ADMIN, now_us=now_us)
        )
        await self._learn(row.grant.org)
        return GrantNow.of(row, now_us)

    async def watched(self, organization: str) -> WatchedCredit:
        """As of the last movement of its credit."""

        def work() -> Watch:
            self._must_be_there(organization)
            return alerts.watch_of(self.ledger, organization)

        return WatchedCredit.of(await attempt(work))

    async def watch(self, organization: str, body: CreditAlertsBody) -> WatchedCredit:
        def work() -> Watch:
            self._must_be_there(organization)
            return alerts.watch(self.ledger, organization, body.thresholds(), self._now_us)

        return WatchedCredit.of(await attempt(work))

    def _must_be_there(self, organization: str) -> None:
        if self.tenants.one(Organization, organization) is None:
            raise NotThere(organization)

    async def _learn(self, organization: str) -> None:
        """This gateway knows at once; the others hear of it from the ledger."""
        self.lines.learn(await asyncio.to_thread(credit_grants.line_of, self.ledger, organization))

    async def _run(self, work: Callable[[], Result]) -> Result:
        try:
            return await attempt(work)
        except UnknownGrant as unknown:
            raise ApiError(404, f"There is no grant '{unknown}'.", code="not_found") from unknown
        except GrantConflict as conflict:
            raise ApiError(409, _sentence(conflict), code="conflict") from conflict
        except CreditError as wrong:
            raise bad_request(_sentence(wrong)) from wrong

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _sentence(error: Exception) -> str:
    text = str(error)
    return f"{text[:1].upper()}{text[1:]}."


async def credits_of(request: Request) -> CreditService:
    parts = parts_of(request)
    return CreditService(
        ledger=parts.ledger,
        tenants=parts.tenants,
        lines=parts.accounts.credits,
        new_id=parts.new_id,
        clock=parts.outside.clock,
    )


Credits = Annotated[CreditService, Depends(credits_of)]
