"""`GET /v1/generations/{id}`: what became of a call."""

from typing import Any

from fastapi import APIRouter

from gateway.api.dependencies import Caller
from gateway.fields import Label
from gateway.public.generations.schemas import BilledGeneration, Explanation
from gateway.public.generations.service import Generations

router = APIRouter(prefix="/v1/generations", tags=["generations"])


@router.get("/{request_id}", response_model=Explanation)
async def explain(generations: Generations, request_id: Label, caller: Caller) -> Any:
    """Timeline, candidates with reasons, attempts, usage, price version and transfers."""
    return await generations.explain(request_id, caller.organization)


@router.get("/{request_id}/invoice-lines", response_model=BilledGeneration)
async def invoice_lines(generations: Generations, request_id: Label, caller: Caller) -> Any:
    """The invoices and lines that the call is charged by."""
    return await generations.billed(request_id, caller.organization)
