"""`GET /v1/generations`: the calls of an organization, and what became of each."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query

from billing.usage.store import CallFilter
from gateway.api.dependencies import Caller
from gateway.api.pages import PagedBy50
from gateway.api.schemas import AtOfQuery, Page
from gateway.fields import Label
from gateway.public.generations.schemas import (
    BilledGeneration,
    Explanation,
    Generation,
)
from gateway.public.generations.service import Generations

router = APIRouter(prefix="/v1/generations", tags=["generations"])


def calls_asked_for(
    from_us: Annotated[
        AtOfQuery | None, Query(alias="from", description="when their first record ended")
    ] = None,
    to_us: Annotated[AtOfQuery | None, Query(alias="to", description="exclusive")] = None,
    model: Annotated[Label | None, Query(description="that served")] = None,
) -> CallFilter:
    return CallFilter(None, from_us, to_us, model)


OfCalls = Annotated[CallFilter, Depends(calls_asked_for)]


@router.get("", response_model=Page[Generation])
async def list_generations(
    generations: Generations, request: PagedBy50, calls: OfCalls, caller: Caller
) -> Any:
    """The organization's own, the newest first, by when their first record ended."""
    return await generations.page(request, calls._replace(org=caller.organization))


@router.get("/{request_id}", response_model=Explanation)
async def explain(generations: Generations, request_id: Label, caller: Caller) -> Any:
    """Timeline, candidates with reasons, attempts, usage, price version and transfers."""
    return await generations.explain(request_id, caller.organization)


@router.get("/{request_id}/invoice-lines", response_model=BilledGeneration)
async def invoice_lines(generations: Generations, request_id: Label, caller: Caller) -> Any:
    """The invoices and lines that the call is charged by."""
    return await generations.billed(request_id, caller.organization)
