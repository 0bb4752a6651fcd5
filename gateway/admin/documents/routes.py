"""`/admin/v1/invoices/{id}.json|.pdf|.csv|.xml` and `/admin/v1/invoices/focus.csv`."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response, StreamingResponse

from billing.documents.forms.en16931 import Profile
from gateway.admin.documents.schemas import CSV, JSON, PDF, XML
from gateway.admin.documents.service import MEDIA, FileKind, Files, Syntax
from gateway.fields import Label

router = APIRouter(prefix="/invoices", tags=["invoices"])

OfSyntax = Annotated[Syntax, Query(description="of the e-invoice")]
OfProfile = Annotated[Profile, Query(description="whose rules it keeps")]


@router.get("/focus.csv", response_class=Response, responses=CSV)
async def focus(files: Files, period: Label, organization: Label | None = None) -> Response:
    """FOCUS 1.2 of a month, `YYYY-MM`: the billed cost of an invoice sums to what is due by it.
    Rows of drafts have no `InvoiceId`."""
    rows = await files.focus(period, organization)
    return StreamingResponse(rows, media_type=MEDIA[FileKind.CSV])


@router.get("/{invoice_id}.json", response_class=Response, responses=JSON)
async def as_json(files: Files, invoice_id: Label) -> Response:
    """All that the document says."""
    return (await files.file(invoice_id, FileKind.JSON)).response()


@router.get("/{invoice_id}.csv", response_class=Response, responses=CSV)
async def as_csv(files: Files, invoice_id: Label) -> Response:
    """One row a line; `amount_cents` sums to the total."""
    return (await files.file(invoice_id, FileKind.CSV)).response()


@router.get("/{invoice_id}.pdf", response_class=Response, responses=PDF)
async def as_pdf(files: Files, invoice_id: Label) -> Response:
    """PDF/A-3a and PDF/UA-1. An issued invoice has its e-invoice inside where its parties allow
    one; a draft is marked as such."""
    return (await files.file(invoice_id, FileKind.PDF)).response()


@router.get("/{invoice_id}.xml", response_class=Response, responses=XML)
async def as_xml(
    files: Files,
    invoice_id: Label,
    syntax: OfSyntax = Syntax.CII,
    profile: OfProfile = Profile.EN16931,
) -> Response:
    """The e-invoice. A draft is 409 `invoice_not_issued`; what the profile asks for and the invoice
    lacks is 409 `e_invoice_incomplete`, in words. A receipt is 409 `no_e_invoice`."""
    file = await files.file(invoice_id, FileKind.XML, syntax=syntax, profile=profile)
    return file.response()
