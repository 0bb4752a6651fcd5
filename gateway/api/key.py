"""`GET /v1/key`: what the calling key may do, its limits, and what is left of its money."""

from typing import Any

from fastapi import APIRouter, Request

from billing.limits.types import ScopeLimits
from billing.money import usd
from gateway.accounts import Accounts
from gateway.api.needs import Caller, parts_of
from gateway.api.shapes import at

router = APIRouter(prefix="/v1", tags=["public"])


@router.get("/key")
async def own_key(request: Request, caller: Caller) -> dict[str, Any]:
    """Each scope binds on its own: the tightest of the three counts. A null is no limit."""
    accounts = parts_of(request).accounts
    leave = caller.leave
    return {
        "id": caller.key,
        "object": "key",
        "organization": caller.organization,
        "project": caller.project,
        "expires_at": at(None if caller.expires_s is None else round(caller.expires_s * 1e6)),
        "models": _listed(leave.models),
        "tiers": _listed(leave.tiers),
        "capacity_classes": _listed(leave.capacity_classes),
        "scopes": [await _scope(accounts, caller.organization, s) for s in caller.scopes],
    }


async def _scope(accounts: Accounts, organization: str, limits: ScopeLimits) -> dict[str, Any]:
    return {
        "scope": limits.scope,
        "requests_per_minute": limits.requests_per_minute,
        "request_burst": limits.request_burst,
        "tokens_per_minute": limits.tokens_per_minute,
        "token_burst": limits.token_burst,
        "concurrency": limits.concurrency,
        "budget": await _budget(accounts, organization, limits),
    }


async def _budget(
    accounts: Accounts, organization: str, limits: ScopeLimits
) -> dict[str, str | None]:
    spent_nanousd, held_nanousd = await accounts.spent_and_held(organization, limits)
    limit_nanousd = limits.budget_nanousd
    left_nanousd = (limit_nanousd or 0) - spent_nanousd - held_nanousd
    return {
        "window": limits.budget_window,
        "limit_usd": None if limit_nanousd is None else usd(limit_nanousd),
        "spent_usd": usd(spent_nanousd),
        "held_usd": usd(held_nanousd),
        "remaining_usd": None if limit_nanousd is None else usd(max(0, left_nanousd)),
    }


def _listed(allowed: frozenset[str] | None) -> list[str] | None:
    return None if allowed is None else sorted(allowed)
