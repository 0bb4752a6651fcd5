"""`GET /v1/organization/receipts`: a tenant's own top-ups and the numbers of their receipts."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.top_ups.schemas import TopUpAnswer
from gateway.admin.top_ups.service import TopUps
from gateway.api.dependencies import Caller
from gateway.api.pages import PagedBy50
from gateway.api.schemas import Page

router = APIRouter(prefix="/v1/organization/receipts", tags=["invoices"])


@router.get("", response_model=Page[TopUpAnswer])
async def own_receipts(top_ups: TopUps, request: PagedBy50, caller: Caller) -> Any:
    """The oldest first. Files of a receipt are those of `/v1/organization/invoices/ID`."""
    return await top_ups.page(request, caller.organization)
