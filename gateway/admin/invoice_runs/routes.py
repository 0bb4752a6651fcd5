"""`/admin/v1/invoice-runs`: jobs that write the invoices of a month, in the ledger process."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.invoice_runs.schemas import InvoiceRunAnswer, InvoiceRunBody
from gateway.admin.invoice_runs.service import InvoiceRuns
from gateway.api.pages import Paged
from gateway.api.schemas import Page

router = APIRouter(prefix="/invoice-runs", tags=["invoices"])

RunId = Annotated[str, Path(max_length=64)]


@router.post("", status_code=202, response_model=InvoiceRunAnswer)
async def start_invoice_run(runs: InvoiceRuns, body: InvoiceRunBody) -> Any:
    """The run that is under way is answered again. Finalised invoices stay as they are."""
    return await runs.start(body)


@router.get("", response_model=Page[InvoiceRunAnswer])
async def list_invoice_runs(runs: InvoiceRuns, request: Paged) -> Any:
    """The oldest first."""
    return await runs.page(request)


@router.get("/{run_id}", response_model=InvoiceRunAnswer)
async def show_invoice_run(runs: InvoiceRuns, run_id: RunId) -> Any:
    """How far it is."""
    return await runs.one(run_id)
