"""`GET /v1/organization/charges/current`: a tenant's running month, and what it may come to."""

from typing import Any

from fastapi import APIRouter, Request

from billing.forecast.current import current_charges
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import Caller, parts_of
from gateway.public.charges.schemas import OwnCharges

router = APIRouter(prefix="/v1/organization/charges", tags=["invoices"])


@router.get("/current", response_model=OwnCharges)
async def own_charges(request: Request, caller: Caller) -> Any:
    """What the invoice of this month would say now, and a forecast of it. Nothing is written. Late
    usage of a month that is billed already is in it."""
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    return await attempt(lambda: current_charges(parts.ledger, caller.organization, now_us))
