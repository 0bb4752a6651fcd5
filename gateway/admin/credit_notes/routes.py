"""`/admin/v1/invoices/{invoice}/credit` and `/admin/v1/credit-notes`."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.credit_notes.schemas import CreditBody, CreditNoteAnswer
from gateway.admin.credit_notes.service import CreditNotes
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(tags=["invoices"])

InvoiceName = Annotated[str, Path(max_length=64, description="its id, or its number")]


@router.post("/invoices/{invoice}/credit", response_model=CreditNoteAnswer, status_code=201)
async def credit_invoice(notes: CreditNotes, invoice: InvoiceName, body: CreditBody) -> Any:
    """Take back an amount, lines, or all that is left. Tax goes back in proportion. Above what is
    left it is 400; 409 for an invoice that is no document or counts no more. The same `external_id`
    again changes nothing; with something else it is 409. Without one, the same credit again changes
    nothing."""
    return await notes.credit(invoice, body)


@router.get("/credit-notes", response_model=Page[CreditNoteAnswer])
async def list_credit_notes(
    notes: CreditNotes,
    request: Paged,
    organization: Label | None = None,
    invoice: Label | None = None,
) -> Any:
    """The oldest first. `invoice` is the id of the one they credit."""
    return await notes.page(request, organization, invoice)
