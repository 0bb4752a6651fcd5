"""`GET /v1/organization/invoices`: a tenant's own invoices, and each of them as a file."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import Response

from billing.documents.forms.en16931 import Profile
from gateway.admin.documents.routes import OfProfile, OfSyntax
from gateway.admin.documents.schemas import CSV, JSON, PDF, XML
from gateway.admin.documents.service import FileKind, Files, Syntax
from gateway.admin.invoices.routes import InvoiceName
from gateway.api.dependencies import Caller
from gateway.api.pages import PagedBy50
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.public.invoices.schemas import OwnInvoice, OwnInvoiceInFull
from gateway.public.invoices.service import OwnInvoices

router = APIRouter(prefix="/v1/organization/invoices", tags=["invoices"])


@router.get("", response_model=Page[OwnInvoice])
async def own_invoices(invoices: OwnInvoices, request: PagedBy50, caller: Caller) -> Any:
    """By month, drafts included."""
    return await invoices.page(request, caller.organization)


@router.get("/{invoice_id}.json", response_class=Response, responses=JSON)
async def as_json(files: Files, invoice_id: Label, caller: Caller) -> Response:
    """All that the document says."""
    return await _file(files, invoice_id, FileKind.JSON, caller)


@router.get("/{invoice_id}.csv", response_class=Response, responses=CSV)
async def as_csv(files: Files, invoice_id: Label, caller: Caller) -> Response:
    """One row a line; `amount_cents` sums to the total."""
    return await _file(files, invoice_id, FileKind.CSV, caller)


@router.get("/{invoice_id}.pdf", response_class=Response, responses=PDF)
async def as_pdf(files: Files, invoice_id: Label, caller: Caller) -> Response:
    """PDF/A-3a and PDF/UA-1; a draft is marked as such."""
    return await _file(files, invoice_id, FileKind.PDF, caller)


@router.get("/{invoice_id}.xml", response_class=Response, responses=XML)
async def as_xml(
    files: Files,
    invoice_id: Label,
    caller: Caller,
    syntax: OfSyntax = Syntax.CII,
    profile: OfProfile = Profile.EN16931,
) -> Response:
    """The e-invoice of an issued invoice."""
    file = await files.file(
        *(invoice_id, FileKind.XML),
        organization=caller.organization,
        syntax=syntax,
        profile=profile,
    )
    return file.response()


async def _file(files: Files, invoice_id: str, kind: FileKind, caller: Caller) -> Response:
    return (await files.file(invoice_id, kind, organization=caller.organization)).response()


@router.get("/{invoice}", response_model=OwnInvoiceInFull)
async def own_invoice(invoices: OwnInvoices, invoice: InvoiceName, caller: Caller) -> Any:
    """With its lines."""
    return await invoices.read(invoice, caller.organization)
