"""The price book as an administrator keeps it, over `billing.prices.versions`.

One admin key has no names behind it yet: who drafted, approved and activated is recorded as
`admin`, so nothing here asks for two people.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.prices import versions
from billing.prices.terms import Difference
from billing.prices.versions import PriceError, UnknownVersion, VersionInfo
from gateway.admin.prices.schemas import PriceVersionBody, TermsBody
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.errors import ApiError, bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock

ADMIN = "admin"
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PriceService:
    """Raises ApiError: 404 for an unknown version, 409 for one in another status, 400 for terms."""

    ledger: Store
    tenants: TenantStore
    clock: Clock

    async def versions(self) -> Sequence[VersionInfo]:
        return await self._run(lambda: versions.list_versions(self.ledger))

    async def version(self, version_id: str) -> VersionInfo:
        return await self._run(lambda: versions.find_version(self.ledger, version_id))

    async def create(self, body: PriceVersionBody) -> VersionInfo:
        if body.status == "draft" and body.effective_from_s is not None:
            message = "effective_from_s: A draft has no instant: it is given when it is activated."
            raise bad_request(message, "effective_from_s")
        return await self._run(lambda: self._create(body))

    def _create(self, body: PriceVersionBody) -> VersionInfo:
        org, rates, discounts = body.organization, body.price_rates(), body.price_discounts()
        if org and self.tenants.one(Organization, org) is None:
            raise NotThere(org)
        if body.status == "draft":
            return versions.create_version(
                *(self.ledger, rates),
                discounts=discounts,
                created_by=ADMIN,
                now_us=self._now_us,
                org=org or "",
                note=body.note,
            )
        return versions.put_into_force(
            *(self.ledger, rates),
            discounts=discounts,
            by=ADMIN,
            now_us=self._now_us,
            effective_from_us=_from_us(body.effective_from_s),
            org=org or "",
            note=body.note,
        )

    async def change(self, version_id: str, body: TermsBody) -> VersionInfo:
        rates, discounts = body.price_rates(), body.price_discounts()
        return await self._run(
            lambda: versions.change_version(
                *(self.ledger, version_id), rates=rates, discounts=discounts, note=body.note
            )
        )

    async def drop(self, version_id: str) -> None:
        await self._run(lambda: versions.drop_version(self.ledger, version_id))

    async def approve(self, version_id: str) -> VersionInfo:
        return await self._run(
            lambda: versions.approve_version(
                *(self.ledger, version_id), approved_by=ADMIN, now_us=self._now_us
            )
        )

    async def activate(self, version_id: str, from_s: float | None) -> VersionInfo:
        return await self._run(
            lambda: versions.activate_version(
                *(self.ledger, version_id),
                effective_from_us=_from_us(from_s),
                now_us=self._now_us,
                activated_by=ADMIN,
            )
        )

    async def difference(self, version_id: str, other_id: str) -> Sequence[Difference]:
        return await self._run(lambda: versions.difference(self.ledger, version_id, other_id))

    async def _run(self, work: Callable[[], Result]) -> Result:
        try:
            return await attempt(work)
        except UnknownVersion as unknown:
            raise ApiError(404, str(unknown), code="not_found") from unknown
        except versions.WrongStatus as wrong:
            raise ApiError(409, str(wrong), code="conflict") from wrong
        except PriceError as wrong:
            raise bad_request(str(wrong), "rates") from wrong

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _from_us(at_s: float | None) -> int | None:
    return None if at_s is None else round(at_s * 1e6)


async def prices_of(request: Request) -> PriceService:
    parts = parts_of(request)
    return PriceService(parts.ledger, parts.tenants, parts.outside.clock)


Prices = Annotated[PriceService, Depends(prices_of)]
