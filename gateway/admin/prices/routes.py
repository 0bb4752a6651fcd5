"""`/admin/v1/prices`: versions of the price book, from a draft over its approval into force."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from billing.prices.versions import VersionInfo
from gateway.admin.prices.schemas import (
    ActivationBody,
    PriceDifference,
    PriceVersion,
    PriceVersionBody,
    PriceVersionDeleted,
    Status,
    TermsBody,
)
from gateway.admin.prices.service import Prices
from gateway.api.pages import Key, Paged, Source, read_page
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/prices", tags=["prices"])

VersionId = Annotated[Label, Path()]


@router.get("", response_model=Page[PriceVersion])
async def list_prices(
    prices: Prices,
    request: Paged,
    organization: Label | None = None,
    status: Status | None = None,
) -> Any:
    """Every version, oldest first."""
    rows = [
        ((number,), version)
        for number, version in enumerate(await prices.versions(), 1)
        if (organization is None or version.org == organization)
        and (status is None or version.status == status)
    ]

    def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, VersionInfo]]:
        """Versions are only ever added, at the end; a draft that was removed leaves a gap."""
        return [row for row in rows if behind is None or row[0] > behind][:limit]

    return read_page(request, Source((int,), read))


@router.post("", status_code=201, response_model=PriceVersion)
async def create_price_version(prices: Prices, body: PriceVersionBody) -> Any:
    return await prices.create(body)


@router.get("/{version_id}", response_model=PriceVersion)
async def show_price_version(prices: Prices, version_id: VersionId) -> Any:
    return await prices.version(version_id)


@router.put("/{version_id}", response_model=PriceVersion)
async def change_price_version(prices: Prices, version_id: VersionId, body: TermsBody) -> Any:
    """Other terms for a draft."""
    return await prices.change(version_id, body)


@router.delete("/{version_id}", response_model=PriceVersionDeleted)
async def drop_price_version(prices: Prices, version_id: VersionId) -> Any:
    """A draft that is not wanted."""
    await prices.drop(version_id)
    return {"id": version_id}


@router.post("/{version_id}/approve", response_model=PriceVersion)
async def approve_price_version(prices: Prices, version_id: VersionId) -> Any:
    """From now on its terms do not change."""
    return await prices.approve(version_id)


@router.post("/{version_id}/activate", response_model=PriceVersion)
async def activate_price_version(
    prices: Prices, version_id: VersionId, body: ActivationBody
) -> Any:
    """Into force, at once or at an instant to come."""
    return await prices.activate(version_id, body.effective_from_s)


@router.get("/{version_id}/difference", response_model=PriceDifference)
async def difference_of_prices(
    prices: Prices,
    version_id: VersionId,
    to: str = Query(max_length=200, description="the other version"),
) -> Any:
    """Every price that the two do not share, before and after."""
    data = await prices.difference(version_id, to)
    return {"from": version_id, "to": to, "data": data}
