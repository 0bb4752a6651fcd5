"""`GET /v1/credits`: what an organization was given, has spent, and may still spend."""

import asyncio
from typing import Any

from fastapi import APIRouter, Request

from billing.credits import grants as credit_grants
from billing.credits.credit import CreditLine
from billing.credits.grants import GivenGrant
from billing.money import NANOUSD_PER_USD, usd
from billing.store.engine import Store
from gateway.api.admin_credits import LIST_MAX, shown
from gateway.api.needs import Caller, parts_of

router = APIRouter(prefix="/v1", tags=["public"])


@router.get("/credits")
async def own_credits(request: Request, caller: Caller) -> dict[str, Any]:
    """`data` is as OpenRouter has it, in USD as numbers; what else there is says the same to the
    nano-dollar. `balance_usd` is below zero for what is owed; `available_usd` is null where the
    organization may spend whatever it comes to. Calls of one model may have less or more: some
    grants are for some models only."""
    parts = parts_of(request)
    organization, may_owe = caller.organization, caller.may_owe_nanousd
    line, grants = await asyncio.to_thread(_credits, parts.ledger, organization)
    money = await parts.accounts.money(organization)
    now_us = round(parts.outside.clock() * 1e6)
    given = line.cleared_nanousd + sum(
        [left.left_nanousd for left in line.grants if left.is_in_force(now_us)]
    )
    spent = money.spent.total_nanousd
    available = None if may_owe is None else given + may_owe - spent - money.held_nanousd
    return {
        "object": "credits",
        "organization": organization,
        "data": {
            "total_credits": given / NANOUSD_PER_USD,
            "total_usage": spent / NANOUSD_PER_USD,
        },
        "balance_usd": usd(given - spent),
        "held_usd": usd(money.held_nanousd),
        "credit_limit_usd": None if may_owe is None else usd(may_owe),
        "available_usd": None if available is None else usd(max(0, available)),
        "grants": [shown(grant, now_us) for grant in grants],
    }


def _credits(ledger: Store, organization: str) -> tuple[CreditLine, list[GivenGrant]]:
    return (
        credit_grants.line_of(ledger, organization),
        credit_grants.every(ledger, organization, limit=LIST_MAX),
    )
