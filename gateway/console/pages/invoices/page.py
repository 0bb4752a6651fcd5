"""`/console/invoices`: the invoices of a month, and one with its lines, payments and actions."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError

from billing.invoices.status import InvoiceStatus
from billing.periods import BadPeriod, period, period_at
from gateway.admin.credit_notes.schemas import CreditBody
from gateway.admin.credit_notes.service import CreditNotes, CreditNoteService
from gateway.admin.documents.service import DocumentFiles, Files
from gateway.admin.invoices.schemas import ReasonBody
from gateway.admin.invoices.service import Invoices, InvoiceService
from gateway.admin.payments.schemas import PayBody
from gateway.admin.payments.service import Payments, PaymentService
from gateway.api.pages import PageRequest
from gateway.console.action_forms import RefusedAction, body_of, must_be_sure, read_action
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.invoices.rows import InvoicesView, invoice_row
from gateway.console.pages.invoices.view import InvoiceReads, invoice_view
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import Label

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/invoices"
TITLE = "Invoices"
ROWS = PageRequest(200, None)
PAYMENTS = PageRequest(50, None)
NOTES = PageRequest(50, None)
EVENTS = PageRequest(200, None)
ACTIONS = ("approve", "issue", "hold", "void", "uncollectible", "credit", "pay", "pay-converted")
VALUE_CHARS_MAX = 200
STATUSES = tuple(each.value for each in InvoiceStatus)


class InvoiceServices(NamedTuple):
    """The use cases of the admin API that the page of an invoice reads and changes by."""

    invoices: InvoiceService
    payments: PaymentService
    notes: CreditNoteService
    files: DocumentFiles


async def services_of(
    invoices: Invoices, payments: Payments, notes: CreditNotes, files: Files
) -> InvoiceServices:
    return InvoiceServices(invoices, payments, notes, files)


Services = Annotated[InvoiceServices, Depends(services_of)]


@router.get("/invoices")
async def show_invoices(request: Request, invoices: Invoices) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    desk = context_of(request)
    filters = _filters(request, desk.now_us)
    try:
        rows = await invoices.page(ROWS, filters["organization"] or None, filters["period"])
        await asyncio.to_thread(desk.names.learn, {each.invoice["org"] for each in rows.data})
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    status = filters["status"]
    shown = tuple(
        invoice_row(each, desk.names.of(each.invoice["org"]), desk.now_us)
        for each in rows.data
        if status in ("", each.status.value)
    )
    return page("invoices.html", view=InvoicesView(shown, filters, STATUSES, rows.has_more))


@router.get("/invoices/{invoice_id}")
async def show_invoice(request: Request, services: Services, invoice_id: Label) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return await _shown(context_of(request), services, invoice_id)


@router.post("/invoices/{invoice_id}/{action}")
async def change_invoice(
    request: Request, services: Services, invoice_id: Label, action: Label
) -> Response:
    """As the admin API does it; what that refuses is said on the page."""
    if not await is_signed_in(request):
        return door_of(request)
    here = f"{HOME}/{invoice_id}"
    if not came_from_us(request):
        return guarded(RedirectResponse(here, status_code=303))
    form = await read_action(request)
    try:
        await _change(services, invoice_id, action, form)
    except ApiError as why:
        refused = RefusedAction(action, why.message, why.status, form)
        return await _shown(context_of(request), services, invoice_id, refused)
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    return guarded(RedirectResponse(here, status_code=303))


async def _change(
    services: InvoiceServices, invoice_id: str, action: str, form: Mapping[str, str]
) -> None:
    """Raises ApiError."""
    if action not in ACTIONS:
        raise ApiError(404, f"Nothing here is called '{action}'.", code="not_found")
    must_be_sure(form)
    invoices = services.invoices
    match action:
        case "approve":
            await invoices.approve(invoice_id)
        case "issue":
            await invoices.issue(invoice_id)
        case "hold":
            await invoices.hold(invoice_id, body_of(ReasonBody, form).reason)
        case "void":
            await invoices.void(invoice_id, body_of(ReasonBody, form).reason)
        case "uncollectible":
            await invoices.write_off(invoice_id, body_of(ReasonBody, form).reason)
        case "credit":
            await services.notes.credit(invoice_id, body_of(CreditBody, form))
        case "pay":
            await services.payments.pay(invoice_id, body_of(PayBody, form))
        case "pay-converted":
            shown = (await invoices.read(invoice_id)).converted
            currency = {"currency": shown.conversion.currency} if shown else {}
            await services.payments.pay(invoice_id, body_of(PayBody, {**form, **currency}))


async def _shown(
    desk: ConsoleContext,
    services: InvoiceServices,
    invoice_id: str,
    refused: RefusedAction | None = None,
) -> Response:
    try:
        reads = await _reads(services, invoice_id)
        org = reads.result.invoice["org"]
        await asyncio.to_thread(desk.names.learn, {org})
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    except ApiError as unknown:
        return page("no_invoice.html", unknown.status, invoice_id=invoice_id)
    view = invoice_view(reads, desk.names.of(org), refused, desk.now_us)
    status, problem = (refused.status, refused.message) if refused else (200, "")
    return page("invoice.html", status, view=view, problem=problem)


async def _reads(services: InvoiceServices, name: str) -> InvoiceReads:
    """Raises ApiError 404."""
    result = await services.invoices.read(name)
    invoice_id = result.invoice["invoice_id"]
    payments = await services.payments.page(PAYMENTS, None, invoice_id)
    notes = await services.notes.page(NOTES, None, invoice_id)
    return InvoiceReads(
        result=result,
        history=await services.invoices.history(invoice_id, EVENTS),
        payments=payments.data,
        more_payments=payments.has_more,
        notes=notes.data,
        parties=await services.files.parties(result.invoice),
    )


def _filters(request: Request, now_us: int) -> dict[str, str]:
    """The month before this one, unless another is asked for."""
    given = {name: _value(request, name) for name in ("organization", "status", "period")}
    try:
        period(given["period"])
    except BadPeriod:
        given["period"] = period_at(period_at(now_us).start_us - 1).name
    return given | {"status": given["status"] if given["status"] in STATUSES else ""}


def _value(request: Request, name: str) -> str:
    value = request.query_params.get(name, "").strip()[:VALUE_CHARS_MAX]
    return "".join([letter for letter in value if letter.isprintable()])
