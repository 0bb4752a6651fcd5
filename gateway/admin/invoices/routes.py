"""`/admin/v1/invoices`: drafted, finalised and listed."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.invoices.schemas import Invoice, VoidBody
from gateway.admin.invoices.service import Invoices
from gateway.api.pages import Paged
from gateway.api.schemas import Listing, Page
from gateway.fields import Label

router = APIRouter(prefix="/invoices", tags=["invoices"])


@router.post("", response_model=Listing[Invoice])
async def run(invoices: Invoices, period: Label, organization: Label | None = None) -> Any:
    """Draft or finalise a month, `YYYY-MM`; finalised invoices stay as they are."""
    return {"data": await invoices.run(period, organization)}


@router.get("", response_model=Page[Invoice])
async def list_invoices(
    invoices: Invoices,
    request: Paged,
    organization: Label | None = None,
    period: Label | None = None,
) -> Any:
    """As they were last written, drafts included."""
    return await invoices.page(request, organization, period)


@router.post("/{invoice_id}/void", response_model=Invoice)
async def void_invoice(
    invoices: Invoices, invoice_id: Annotated[str, Path(max_length=64)], body: VoidBody
) -> Any:
    """It keeps its number and counts no more. The next run makes its month anew. 409 for a draft;
    again changes nothing."""
    return await invoices.void(invoice_id, body.reason)
