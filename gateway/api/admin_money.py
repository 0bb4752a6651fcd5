"""Prices and calls."""

from typing import Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from billing import prices, queries
from billing.money import nanousd, usd
from billing.pricebook import Component, PriceRate
from gateway.api.admin_tenants import attempt
from gateway.api.fields import LAST_EPOCH_S
from gateway.api.needs import parts_of
from gateway.api.shapes import at, explained, summary
from gateway.errors import ApiError, bad_request

router = APIRouter()

LIST_MAX = 1000


class RateBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: str
    tier: str = Field(pattern="^(priority|default|flex)$")
    batch: bool = False
    component: Component
    usd_per_mtok: str = Field(description="decimal USD per million units")


class PriceVersionBody(BaseModel):
    """A whole version of the book: what it does not price is refused, never free."""

    model_config = ConfigDict(extra="forbid")
    rates: list[RateBody] = Field(min_length=1)
    note: str = Field("", max_length=200)
    effective_from_s: float | None = Field(
        None, ge=0, le=LAST_EPOCH_S, description="epoch seconds; null is now"
    )


@router.get("/prices")
async def list_prices(request: Request) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    versions = await attempt(lambda: prices.list_versions(ledger))
    return {"object": "list", "data": [_version(version) for version in versions]}


@router.post("/prices", status_code=201)
async def create_price_version(request: Request, body: PriceVersionBody) -> dict[str, Any]:
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    rates = [_rate(index, rate) for index, rate in enumerate(body.rates)]
    from_us = None if body.effective_from_s is None else round(body.effective_from_s * 1e6)

    def work() -> prices.VersionInfo:
        return prices.put_into_force(
            parts.ledger,
            rates,
            by="admin",
            now_us=now_us,
            effective_from_us=from_us,
            note=body.note,
        )

    try:
        return _version(await attempt(work))
    except prices.PriceError as wrong:
        raise bad_request(str(wrong), "rates") from wrong


@router.get("/requests")
async def list_requests(
    request: Request,
    organization: str | None = None,
    limit: int = Query(50, ge=1, le=LIST_MAX),
) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    calls = await attempt(lambda: queries.recent_calls(ledger, limit, organization))
    return {"object": "list", "data": [summary(call) for call in calls]}


@router.get("/requests/{request_id}")
async def explain_request(request: Request, request_id: str) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    found = await attempt(lambda: queries.call_by_rid(ledger, request_id))
    if found is None:
        raise ApiError(404, f"No request '{request_id}'.", code="not_found")
    return explained(found)


def _rate(index: int, body: RateBody) -> PriceRate:
    try:
        amount = nanousd(body.usd_per_mtok)
    except ValueError as wrong:
        raise bad_request(str(wrong), f"rates.{index}.usd_per_mtok") from wrong
    return PriceRate(
        model=body.model,
        tier=body.tier,
        batch=body.batch,
        component=body.component,
        nanousd_per_mtok=amount,
    )


def _version(version: prices.VersionInfo) -> dict[str, Any]:
    return {
        "object": "price_version",
        "id": version.version_id,
        "status": version.status,
        "effective_from": at(version.effective_from_us),
        "created_at": at(version.created_us),
        "created_by": version.created_by,
        "note": version.note,
        "rates": [
            {
                "model": rate.model,
                "tier": rate.tier,
                "batch": rate.batch,
                "component": rate.component,
                "usd_per_mtok": usd(rate.nanousd_per_mtok),
            }
            for rate in version.rates
        ],
    }
