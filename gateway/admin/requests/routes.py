"""`/admin/v1/requests`: calls as the ledger has them."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.requests.schemas import CostedExplanation
from gateway.admin.requests.service import Requests
from gateway.api.pages import PagedBy50
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.public.generations.routes import OfCalls
from gateway.public.generations.schemas import BilledGeneration, Generation
from gateway.public.generations.service import Generations

router = APIRouter(prefix="/requests", tags=["requests"])


@router.get("", response_model=Page[Generation])
async def list_requests(
    generations: Generations,
    request: PagedBy50,
    calls: OfCalls,
    organization: Label | None = None,
) -> Any:
    """The newest first, by when their first record ended."""
    return await generations.page(request, calls._replace(org=organization))


@router.get("/{request_id}", response_model=CostedExplanation)
async def explain_request(requests: Requests, request_id: Label) -> Any:
    return await requests.explain(request_id)


@router.get("/{request_id}/invoice-lines", response_model=BilledGeneration)
async def request_invoice_lines(generations: Generations, request_id: Label) -> Any:
    """The invoices and lines that the call is charged by."""
    return await generations.billed(request_id, None)
