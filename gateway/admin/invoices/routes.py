"""`/admin/v1/invoices`: drafted, finalised and listed."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from gateway.admin.invoices.schemas import (
    Invoice,
    InvoiceEvents,
    LineCall,
    ListedInvoice,
    OneOffBody,
    ReasonBody,
)
from gateway.admin.invoices.service import Invoices
from gateway.api.pages import Paged, PagedBy100
from gateway.api.schemas import Listing, Page
from gateway.fields import INTEGER_MAX, Label

router = APIRouter(prefix="/invoices", tags=["invoices"])


@router.post("", response_model=Invoice | Listing[Invoice])
async def run(
    invoices: Invoices,
    period: Label | None = None,
    organization: Label | None = None,
    body: OneOffBody | None = None,
) -> Any:
    """With `period`, draft or finalise a month, `YYYY-MM`; finalised invoices stay as they are.
    With a body, draft a one-off invoice of its lines, which `issue` gives its number."""
    if body is not None:
        return await invoices.one_off(body)
    return {"data": await invoices.run(period, organization)}


@router.get("", response_model=Page[ListedInvoice] | Page[Invoice])
async def list_invoices(
    invoices: Invoices,
    request: Paged,
    organization: Label | None = None,
    period: Label | None = None,
    lines: Annotated[bool, Query(description="each with its lines")] = False,
) -> Any:
    """As they were last written, drafts included."""
    found = await invoices.page(request, organization, period)
    return (Page[Invoice] if lines else Page[ListedInvoice]).model_validate(found)


InvoiceId = Annotated[str, Path(max_length=64)]
InvoiceName = Annotated[str, Path(max_length=64, description="its id, or its number")]
LineSeq = Annotated[int, Path(ge=1, le=INTEGER_MAX)]


@router.get("/{invoice}", response_model=Invoice)
async def read_invoice(invoices: Invoices, invoice: InvoiceName) -> Any:
    """With its lines. A draft has the reasons why it is one."""
    return await invoices.read(invoice)


@router.get("/{invoice}/events", response_model=InvoiceEvents)
async def list_invoice_events(invoices: Invoices, invoice: InvoiceName, request: PagedBy100) -> Any:
    """What happened to the invoice and who was told of it, the oldest first, and the dunning step
    that comes next."""
    return await invoices.history(invoice, request)


@router.get("/{invoice_id}/lines/{seq}/calls", response_model=Page[LineCall])
async def list_line_calls(
    invoices: Invoices, invoice_id: InvoiceId, seq: LineSeq, request: PagedBy100
) -> Any:
    """The charges behind a line, the oldest first: they sum to its amount. A rounding has none, and
    a term has one once its invoice has a number."""
    return await invoices.calls(invoice_id, seq, request)


@router.post("/{invoice_id}/void", response_model=Invoice)
async def void_invoice(invoices: Invoices, invoice_id: InvoiceId, body: ReasonBody) -> Any:
    """It keeps its number and counts no more. The next run makes its month anew. 409 for a draft;
    again changes nothing."""
    return await invoices.void(invoice_id, body.reason)


@router.post("/{invoice_id}/hold", response_model=Invoice)
async def hold_invoice(invoices: Invoices, invoice_id: InvoiceId, body: ReasonBody) -> Any:
    """The draft is parked until it is approved. 409 for one that is issued."""
    return await invoices.hold(invoice_id, body.reason)


@router.post("/{invoice_id}/approve", response_model=Invoice)
async def approve_invoice(invoices: Invoices, invoice_id: InvoiceId) -> Any:
    """The amount of the draft is right, and nothing holds it back: the next run issues it. One that
    grows is parked again. 409 for one that is issued."""
    return await invoices.approve(invoice_id)


@router.post("/{invoice_id}/issue", response_model=Invoice)
async def issue_invoice(invoices: Invoices, invoice_id: InvoiceId) -> Any:
    """Approve the draft and issue it now. 409 `invoice_status` says what keeps it from that; again
    changes nothing."""
    return await invoices.issue(invoice_id)


@router.post("/{invoice_id}/uncollectible", response_model=Invoice)
async def write_off_invoice(invoices: Invoices, invoice_id: InvoiceId, body: ReasonBody) -> Any:
    """Nobody expects it to be paid: what is left becomes a bad debt. 409 for one that is not open;
    again changes nothing."""
    return await invoices.write_off(invoice_id, body.reason)
