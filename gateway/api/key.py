"""`GET /v1/key`: what the calling key may do, its limits, and what is left of its money."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request

from billing.limits.types import ScopeLimits
from billing.money import usd
from gateway.accounts import Accounts
from gateway.api.budget_shapes import with_standings
from gateway.api.needs import Caller, parts_of
from gateway.api.shapes import at
from gateway.auth import Narrow
from gateway.store import EVERY_USER

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
        "narrow_limits": [
            {"scope": limits.scope} | _limits(limits) for limits in _narrow(caller.narrow)
        ],
        "budgets": await with_standings(
            parts_of(request).standings,
            [*(budget for budget, _ in caller.budgets.own), *caller.budgets.every_user],
        ),
        "end_user_required": caller.narrow.asks_for_user or caller.budgets.ask_for_user,
    }


def _narrow(narrow: Narrow) -> Iterator[ScopeLimits]:
    """Of models, and of every end user that has none of its own."""
    for of_model in narrow.models.values():
        yield from of_model
    for limits in narrow.every_user:
        yield replace(limits, scope=f"{limits.scope}{EVERY_USER}")


def _limits(limits: ScopeLimits) -> dict[str, int | None]:
    return {
        "requests_per_minute": limits.requests_per_minute,
        "request_burst": limits.request_burst,
        "tokens_per_minute": limits.tokens_per_minute,
        "token_burst": limits.token_burst,
        "input_tokens_per_minute": limits.input_tokens_per_minute,
        "input_token_burst": limits.input_token_burst,
        "output_tokens_per_minute": limits.output_tokens_per_minute,
        "output_token_burst": limits.output_token_burst,
        "concurrency": limits.concurrency,
    }


async def _scope(accounts: Accounts, organization: str, limits: ScopeLimits) -> dict[str, Any]:
    return {
        "scope": limits.scope,
        **_limits(limits),
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
