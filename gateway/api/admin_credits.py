"""`/admin/v1/credits`: grants of credit, given under an id of the caller's choice and voided.

What a grant still has is the ledger's; it is a moment behind what calls have spent.
"""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from billing.credits import grants as credit_grants
from billing.credits.credit import PRIORITY, PRIORITY_MAX, Category, Grant
from billing.credits.grants import CreditError, GivenGrant, GrantConflict, UnknownGrant
from billing.money import nanousd, usd
from billing.store.engine import Store
from gateway.admin.tenants import NotThere
from gateway.api.admin_tenants import attempt
from gateway.api.fields import InstantS, Label, Text
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.errors import ApiError, bad_request
from gateway.parts import Parts
from gateway.tables import ModelRow, Organization

router = APIRouter()

Found = TypeVar("Found")

ADMIN = "admin"
LIST_MAX = 1000
ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
GrantId = Annotated[str, Path(pattern=ID_PATTERN)]


class GrantBody(BaseModel):
    """Under an `id` of the caller's choice it is given once, however often it is asked for."""

    model_config = ConfigDict(extra="forbid")
    id: str | None = Field(None, pattern=ID_PATTERN)
    organization: Label
    category: Category
    amount_usd: str = Field(description="decimal USD, above zero")
    priority: int = Field(
        PRIORITY, strict=True, ge=0, le=PRIORITY_MAX, description="lower ones pay first"
    )
    effective_at: InstantS | None = Field(None, description="epoch seconds; null is now")
    expires_at: InstantS | None = Field(None, description="epoch seconds; null is never")
    models: list[Label] = Field([], max_length=100, description="none is every model")
    note: Text = Field("", max_length=200)

    @field_validator("amount_usd")
    @classmethod
    def is_amount(cls, text: str) -> str:
        if nanousd(text) <= 0:
            raise ValueError("an amount is above zero")
        return text


@router.post("/credits", status_code=201, responses={200: {"description": "It was given before"}})
async def give_credit(request: Request, body: GrantBody, response: Response) -> dict[str, Any]:
    """201 for a new grant, 200 for one that was given before under the same id."""
    parts = parts_of(request)
    now_us = _now_us(parts)
    grant = Grant(
        grant_id=body.id or parts.new_id("grant"),
        org=body.organization,
        category=body.category,
        amount_nanousd=nanousd(body.amount_usd),
        priority=body.priority,
        effective_us=now_us if body.effective_at is None else body.effective_at * 1_000_000,
        created_us=now_us,
        expires_us=None if body.expires_at is None else body.expires_at * 1_000_000,
        models=tuple(body.models),
    )

    def work(ledger: Store) -> tuple[GivenGrant, bool]:
        if parts.tenants.one(Organization, grant.org) is None:
            raise NotThere(grant.org)
        for model in grant.models:
            if parts.tenants.one(ModelRow, model) is None:
                raise CreditError(f"there is no model {model!r}")
        return credit_grants.give(ledger, grant, created_by=ADMIN, now_us=now_us, note=body.note)

    given, is_new = await _asked(request, work)
    if not is_new:
        response.status_code = 200
    await _learn(parts, given.grant.org)
    return shown(given, now_us)


@router.get("/credits")
async def list_credits(
    request: Request,
    organization: Label | None = None,
    limit: int = Query(100, ge=1, le=LIST_MAX),
    after: str | None = Query(None, pattern=ID_PATTERN, description="`last_id` of the page before"),
) -> dict[str, Any]:
    """The oldest first."""
    now_us = _now_us(parts_of(request))

    def work(ledger: Store) -> list[GivenGrant]:
        try:
            return credit_grants.every(ledger, organization, after=after, limit=limit + 1)
        except UnknownGrant as unknown:
            raise bad_request("after: No grant has this id.", "after") from unknown

    found = await _asked(request, work)
    page = found[:limit]
    return {
        "object": "list",
        "data": [shown(given, now_us) for given in page],
        "has_more": len(found) > limit,
        "last_id": page[-1].grant.grant_id if page else None,
    }


@router.get("/credits/{grant_id}")
async def show_credit(request: Request, grant_id: GrantId) -> dict[str, Any]:
    given = await _asked(request, lambda ledger: credit_grants.one(ledger, grant_id))
    return shown(given, _now_us(parts_of(request)))


@router.post("/credits/{grant_id}/void")
async def void_credit(request: Request, grant_id: GrantId) -> dict[str, Any]:
    """It pays for no call that is admitted from `voided_at` on, a few seconds from now, when every
    gateway knows; again changes nothing."""
    parts = parts_of(request)
    now_us = _now_us(parts)
    given = await _asked(
        request,
        lambda ledger: credit_grants.void(ledger, grant_id, voided_by=ADMIN, now_us=now_us),
    )
    await _learn(parts, given.grant.org)
    return shown(given, now_us)


def shown(given: GivenGrant, now_us: int) -> dict[str, Any]:
    """A grant as administrators and its organization see it."""
    grant = given.grant
    return {
        "id": grant.grant_id,
        "object": "credit_grant",
        "organization": grant.org,
        "category": grant.category.value,
        "status": _status(given, now_us),
        "amount_usd": usd(grant.amount_nanousd),
        "remaining_usd": usd(given.left_nanousd),
        "priority": grant.priority,
        "models": list(grant.models),
        "effective_at": at(grant.effective_us),
        "expires_at": at(grant.expires_us),
        "voided_at": at(grant.voided_us),
        "created_at": at(grant.created_us),
        "note": given.note,
    }


def _status(given: GivenGrant, now_us: int) -> str:
    grant = given.grant
    if grant.ends_us is not None and grant.ends_us <= now_us:
        return "voided" if grant.is_void else "expired"
    if now_us < grant.effective_us:
        return "scheduled"
    return "active" if given.left_nanousd else "used_up"


async def _learn(parts: Parts, organization: str) -> None:
    """This gateway knows at once; the others hear of it from the ledger."""
    line = await asyncio.to_thread(credit_grants.line_of, parts.ledger, organization)
    parts.accounts.credits.learn(line)


async def _asked(request: Request, work: Callable[[Store], Found]) -> Found:
    """A use case of credits; its named failures become 400, 404 and 409."""
    ledger = parts_of(request).ledger
    try:
        return await attempt(lambda: work(ledger))
    except UnknownGrant as unknown:
        raise ApiError(404, f"There is no grant '{unknown}'.", code="not_found") from unknown
    except GrantConflict as conflict:
        raise ApiError(409, f"{_sentence(conflict)}.", code="conflict") from conflict
    except CreditError as wrong:
        raise bad_request(f"{_sentence(wrong)}.") from wrong


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:]


def _now_us(parts: Parts) -> int:
    return round(parts.outside.clock() * 1e6)
