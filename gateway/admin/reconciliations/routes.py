"""`/admin/v1/providers/{name}/reconciliations`: a provider's bill beside what was booked."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.reconciliations.schemas import ReconciliationAnswer, ReconciliationBody
from gateway.admin.reconciliations.service import Reconciliations
from gateway.api.pages import PagedBy50
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/providers/{name}/reconciliations", tags=["providers"])

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@router.get("", response_model=Page[ReconciliationAnswer])
async def list_reconciliations(bills: Reconciliations, name: Label, request: PagedBy50) -> Any:
    """Bills that were posted, the newest first."""
    return await bills.page(name, request)


@router.post("", response_model=ReconciliationAnswer)
async def reconcile_provider(bills: Reconciliations, name: Label, body: ReconciliationBody) -> Any:
    """Compares the days of a bill with what attempts of the provider's pools were booked at, and
    posts each difference as a transfer between two accounts of the provider. A file is posted once:
    again it answers what it came to then."""
    return await bills.reconcile(name, body)


@router.get("/{sha256}", response_model=ReconciliationAnswer)
async def show_reconciliation(bills: Reconciliations, name: Label, sha256: Digest) -> Any:
    return await bills.one(name, sha256)
