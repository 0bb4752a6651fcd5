"""`/admin/v1/prices`: versions of the price book, from a draft over its approval into force.

One admin key has no names behind it yet: who drafted, approved and activated is recorded as
`admin`, so nothing here asks for two people.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from billing import prices
from billing.money import nanousd, usd
from billing.price_terms import GPU_MS_MAX, PROMPT_MAX, Difference
from billing.pricebook import Component, Discount, PriceRate
from billing.prices import PriceError, UnknownVersion, VersionInfo
from billing.store.engine import Store
from billing.tariff import BASIS_POINTS
from gateway.admin.tenants import NotThere
from gateway.api.admin_tenants import attempt
from gateway.api.fields import LAST_EPOCH_S, Label, Text
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.errors import ApiError, bad_request
from gateway.parts import Parts
from gateway.tables import Organization

router = APIRouter()

Found = TypeVar("Found")

ADMIN = "admin"
RATES_MAX = 10_000
VersionId = Annotated[Label, Path()]
From = Annotated[
    float | None,
    Field(ge=0, le=LAST_EPOCH_S, description="epoch seconds; null is now"),
]


class RateBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: Label
    tier: str = Field(pattern="^(priority|default|flex)$")
    batch: bool = False
    component: Component
    usd_per_mtok: str = Field(description="decimal USD per million units")
    prompt_from_tokens: int = Field(
        0, strict=True, ge=0, le=PROMPT_MAX, description="of calls with at least so long a prompt"
    )
    units_max: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=GPU_MS_MAX,
        description="of gpu_ms: held with a call, and charged at most",
    )


class DiscountBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: Label | None = Field(None, description="null: every model without one of its own")
    basis_points: int = Field(
        strict=True, ge=0, le=BASIS_POINTS, description="of a price; 10000 is all of it"
    )


class TermsBody(BaseModel):
    """What a version costs: of everybody's, all there is; what it does not price is refused."""

    model_config = ConfigDict(extra="forbid")
    rates: list[RateBody] = Field([], max_length=RATES_MAX)
    discounts: list[DiscountBody] = Field([], max_length=RATES_MAX)
    note: Text = Field("", max_length=200)


class PriceVersionBody(TermsBody):
    """A version for everybody or, as an agreement, for one organization: its own rates, which
    replace everybody's of the same model, tier and batch, and discounts on all others."""

    organization: Label | None = None
    status: Literal["draft", "active"] = Field(
        "active", description="active: approved and put into force at once"
    )
    effective_from_s: From = None


class ActivationBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    effective_from_s: From = None


@router.get("/prices")
async def list_prices(
    request: Request,
    organization: Label | None = None,
    status: Literal["draft", "approved", "active"] | None = None,
) -> dict[str, Any]:
    """Every version, oldest first."""
    found = await _asked(request, prices.list_versions)
    shown = [
        _version(version)
        for version in found
        if (organization is None or version.org == organization)
        and (status is None or version.status == status)
    ]
    return {"object": "list", "data": shown}


@router.post("/prices", status_code=201)
async def create_price_version(request: Request, body: PriceVersionBody) -> dict[str, Any]:
    parts = parts_of(request)
    rates, discounts = _rates(body.rates), _discounts(body.discounts)
    terms: dict[str, Any] = {"org": body.organization or "", "note": body.note}
    now_us = _now_us(parts)
    if body.status == "draft" and body.effective_from_s is not None:
        message = "effective_from_s: A draft has no instant: it is given when it is activated."
        raise bad_request(message, "effective_from_s")

    def work(ledger: Store) -> VersionInfo:
        if body.organization and parts.tenants.one(Organization, body.organization) is None:
            raise NotThere(body.organization)
        if body.status == "draft":
            return prices.create_version(
                ledger, rates, discounts=discounts, created_by=ADMIN, now_us=now_us, **terms
            )
        return prices.put_into_force(
            ledger,
            rates,
            discounts=discounts,
            by=ADMIN,
            now_us=now_us,
            effective_from_us=_from_us(body.effective_from_s),
            **terms,
        )

    return _version(await _asked(request, work))


@router.get("/prices/{version_id}")
async def show_price_version(request: Request, version_id: VersionId) -> dict[str, Any]:
    return _version(await _asked(request, lambda ledger: prices.find_version(ledger, version_id)))


@router.put("/prices/{version_id}")
async def change_price_version(
    request: Request, version_id: VersionId, body: TermsBody
) -> dict[str, Any]:
    """Other terms for a draft."""
    rates, discounts = _rates(body.rates), _discounts(body.discounts)

    def work(ledger: Store) -> VersionInfo:
        return prices.change_version(
            ledger, version_id, rates=rates, discounts=discounts, note=body.note
        )

    return _version(await _asked(request, work))


@router.delete("/prices/{version_id}")
async def drop_price_version(request: Request, version_id: VersionId) -> dict[str, Any]:
    """A draft that is not wanted."""
    await _asked(request, lambda ledger: prices.drop_version(ledger, version_id))
    return {"object": "price_version.deleted", "id": version_id, "deleted": True}


@router.post("/prices/{version_id}/approve")
async def approve_price_version(request: Request, version_id: VersionId) -> dict[str, Any]:
    """From now on its terms do not change."""
    now_us = _now_us(parts_of(request))

    def work(ledger: Store) -> VersionInfo:
        return prices.approve_version(ledger, version_id, approved_by=ADMIN, now_us=now_us)

    return _version(await _asked(request, work))


@router.post("/prices/{version_id}/activate")
async def activate_price_version(
    request: Request, version_id: VersionId, body: ActivationBody
) -> dict[str, Any]:
    """Into force, at once or at an instant to come."""
    now_us = _now_us(parts_of(request))

    def work(ledger: Store) -> VersionInfo:
        return prices.activate_version(
            ledger,
            version_id,
            effective_from_us=_from_us(body.effective_from_s),
            now_us=now_us,
            activated_by=ADMIN,
        )

    return _version(await _asked(request, work))


@router.get("/prices/{version_id}/difference")
async def difference_of_prices(
    request: Request,
    version_id: VersionId,
    to: str = Query(max_length=200, description="the other version"),
) -> dict[str, Any]:
    """Every price that the two do not share, before and after."""
    found = await _asked(request, lambda ledger: prices.difference(ledger, version_id, to))
    shown = [_difference(one) for one in found]
    return {"object": "price_difference", "from": version_id, "to": to, "data": shown}


async def _asked(request: Request, work: Callable[[Store], Found]) -> Found:
    """Raises ApiError 404 for an unknown version, 409 for one in another status, 400 for terms."""
    ledger = parts_of(request).ledger
    try:
        return await attempt(lambda: work(ledger))
    except UnknownVersion as unknown:
        raise ApiError(404, str(unknown), code="not_found") from unknown
    except prices.WrongStatus as wrong:
        raise ApiError(409, str(wrong), code="conflict") from wrong
    except PriceError as wrong:
        raise bad_request(str(wrong), "rates") from wrong


def _now_us(parts: Parts) -> int:
    return round(parts.outside.clock() * 1e6)


def _from_us(at_s: float | None) -> int | None:
    return None if at_s is None else round(at_s * 1e6)


def _rates(bodies: Sequence[RateBody]) -> list[PriceRate]:
    return [_rate(index, body) for index, body in enumerate(bodies)]


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
        prompt_from=body.prompt_from_tokens,
        units_max=body.units_max,
    )


def _discounts(bodies: Sequence[DiscountBody]) -> list[Discount]:
    return [Discount(body.model or "", body.basis_points) for body in bodies]


def _version(version: VersionInfo) -> dict[str, Any]:
    return {
        "object": "price_version",
        "id": version.version_id,
        "organization": version.org or None,
        "status": version.status,
        "effective_from": at(version.effective_from_us),
        "created_at": at(version.created_us),
        "created_by": version.created_by,
        "approved_at": at(version.approved_us),
        "approved_by": version.approved_by,
        "activated_by": version.activated_by,
        "note": version.note,
        "rates": [
            {
                "model": rate.model,
                "tier": rate.tier,
                "batch": rate.batch,
                "component": rate.component,
                "usd_per_mtok": usd(rate.nanousd_per_mtok),
                "prompt_from_tokens": rate.prompt_from,
                "units_max": rate.units_max,
            }
            for rate in version.rates
        ],
        "discounts": [
            {"model": off.model or None, "basis_points": off.basis_points}
            for off in version.discounts
        ],
    }


def _difference(one: Difference) -> dict[str, Any]:
    """A discount is told in basis points, everything else in USD per million units."""
    if one.component == prices.DISCOUNT:
        amounts: dict[str, Any] = {
            "basis_points_before": one.before,
            "basis_points_after": one.after,
        }
    else:
        amounts = {
            "usd_per_mtok_before": None if one.before is None else usd(one.before),
            "usd_per_mtok_after": None if one.after is None else usd(one.after),
            "units_max_before": one.units_max_before,
            "units_max_after": one.units_max_after,
        }
    return {
        "model": one.model or None,
        "tier": one.tier or None,
        "batch": one.batch,
        "component": one.component,
        "prompt_from_tokens": one.prompt_from,
        **amounts,
    }
