"""`/console/invoices`: the invoices of a month, and one with its lines, payments and actions."""

import asyncio
from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from billing.invoices.status import InvoiceStatus
from billing.periods import BadPeriod, period, period_at
from gateway.admin.credit_notes.schemas import CreditBody
from gateway.admin.credit_notes.service import CreditNotes, CreditNoteService
from gateway.admin.invoices.schemas import ReasonBody
from gateway.admin.invoices.service import Invoices, InvoiceService
from gateway.admin.payments.schemas import PayBody
from gateway.admin.payments.service import Payments, PaymentService
from gateway.api.pages import PageRequest
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us, read_form
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.invoices.rows import InvoicesView, invoice_row, invoice_view
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import Label

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/invoices"
TITLE = "Invoices"
ROWS = PageRequest(200, None)
PAYMENTS = PageRequest(50, None)
FORM_BYTES_MAX = 4096
VALUE_CHARS_MAX = 200
STATUSES = tuple(each.value for each in InvoiceStatus)


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
async def show_invoice(
    request: Request, invoices: Invoices, payments: Payments, invoice_id: Label
) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return await _shown(context_of(request), invoices, payments, invoice_id)


@router.post("/invoices/{invoice_id}/{action}")
async def change_invoice(
    request: Request,
    invoices: Invoices,
    payments: Payments,
    notes: CreditNotes,
    invoice_id: Label,
    action: Label,
) -> Response:
    """As the admin API does it; what that refuses is said on the page."""
    if not await is_signed_in(request):
        return door_of(request)
    here = f"{HOME}/{invoice_id}"
    if not came_from_us(request):
        return guarded(RedirectResponse(here, status_code=303))
    form = await read_form(request, bytes_max=FORM_BYTES_MAX)
    desk = context_of(request)
    try:
        await _change(invoices, payments, notes, invoice_id, action, form)
    except ValidationError as wrong:
        field = str(wrong.errors()[0]["loc"][0])
        words = f"Nothing was changed: {field.replace('_', ' ')} is missing, or cannot be so."
        return await _shown(desk, invoices, payments, invoice_id, 400, words)
    except ApiError as refused:
        return await _shown(desk, invoices, payments, invoice_id, refused.status, refused.message)
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    return guarded(RedirectResponse(here, status_code=303))


async def _change(
    invoices: InvoiceService,
    payments: PaymentService,
    notes: CreditNoteService,
    invoice_id: str,
    action: str,
    form: Mapping[str, str],
) -> None:
    """Raises ApiError, ValidationError."""
    match action:
        case "approve":
            await invoices.approve(invoice_id)
        case "issue":
            await invoices.issue(invoice_id)
        case "void":
            await invoices.void(invoice_id, ReasonBody.model_validate(dict(form)).reason)
        case "credit":
            await notes.credit(invoice_id, CreditBody.model_validate(dict(form)))
        case "pay":
            await payments.pay(invoice_id, PayBody.model_validate(dict(form)))
        case _:
            raise ApiError(404, f"Nothing here is called '{action}'.", code="not_found")


async def _shown(
    desk: ConsoleContext,
    invoices: InvoiceService,
    payments: PaymentService,
    invoice_id: str,
    status: int = 200,
    problem: str = "",
) -> Response:
    try:
        result = await invoices.read(invoice_id)
        paid = await payments.page(PAYMENTS, None, invoice_id)
        await asyncio.to_thread(desk.names.learn, {result.invoice["org"]})
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    except ApiError as unknown:
        return page("no_invoice.html", unknown.status, invoice_id=invoice_id)
    name = desk.names.of(result.invoice["org"])
    view = invoice_view(result, paid.data, name, desk.now_us)
    return page("invoice.html", status, view=view, problem=problem)


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
