"""`GET /v1/credits`: what an organization was given, has spent, and may still spend."""

from typing import Any

from fastapi import APIRouter

from gateway.api.dependencies import Caller
from gateway.public.credits.schemas import Credits
from gateway.public.credits.service import Balances

router = APIRouter(prefix="/v1", tags=["credits"])


@router.get("/credits", response_model=Credits)
async def own_credits(balances: Balances, caller: Caller) -> Any:
    """`data` is as OpenRouter has it, in USD as numbers; what else there is says the same to the
    nano-dollar. `balance_usd` is below zero for what is owed; `available_usd` is null where the
    organization may spend whatever it comes to. Calls of one model may have less or more: some
    grants are for some models only."""
    return await balances.of(caller)
