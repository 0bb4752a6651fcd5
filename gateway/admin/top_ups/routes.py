"""`/admin/v1/organizations/{id}/top-ups` and `/admin/v1/top-ups`: money that becomes paid credit
and a receipt."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from gateway.admin.payments.schemas import PayBody, RefundBody
from gateway.admin.top_ups.schemas import TopUpAnswer
from gateway.admin.top_ups.service import TopUps
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(tags=["payments"])

TopUpId = Annotated[str, Path(max_length=64)]


@router.post(
    "/organizations/{organization_id}/top-ups",
    status_code=201,
    response_model=TopUpAnswer,
    responses={200: {"model": TopUpAnswer, "description": "It was booked before"}},
)
async def top_up(top_ups: TopUps, organization_id: Label, body: PayBody, response: Response) -> Any:
    """Money that came for no invoice becomes credit that counts at once, and a receipt. 201 for a
    new one; 200 for the same `external_id` again, and 409 with another amount."""
    state, is_new = await top_ups.top_up(organization_id, body)
    if not is_new:
        response.status_code = 200
    return state


@router.get("/top-ups", response_model=Page[TopUpAnswer])
async def list_top_ups(top_ups: TopUps, request: Paged, organization: Label | None = None) -> Any:
    """The oldest first. Files of a receipt are those of `/admin/v1/invoices/{id}`."""
    return await top_ups.page(request, organization)


@router.post("/top-ups/{top_up_id}/refund", response_model=TopUpAnswer)
async def refund_top_up(top_ups: TopUps, top_up_id: TopUpId, body: RefundBody) -> Any:
    """Give back what no call has used. More than that is 409. Without `amount_usd` it is all whole
    cents of it."""
    return await top_ups.refund(top_up_id, body)
