"""`/admin/v1/ledger`: accounts and transfers, and the proof of the ledger."""

from typing import Any

from fastapi import APIRouter, Query

from gateway.admin.ledger.schemas import LedgerAccount, LedgerReport, Transfer
from gateway.admin.ledger.service import Ledger
from gateway.api.pages import Paged, PagedBy50
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/ledger", tags=["ledger"])


@router.get("/accounts", response_model=Page[LedgerAccount])
async def accounts(ledger: Ledger, request: Paged) -> Any:
    return await ledger.accounts(request)


@router.get("/transfers", response_model=Page[Transfer])
async def transfers(
    ledger: Ledger,
    request: PagedBy50,
    organization: Label | None = None,
    call: Label | None = Query(None, alias="request", description="the id of a call"),
) -> Any:
    """The newest first, by when they count."""
    return await ledger.transfers(request, organization, call)


@router.get("/verify", response_model=LedgerReport)
async def verify(ledger: Ledger) -> Any:
    """The same checks as `sluice ledger verify`; `ok` is false if a law is broken."""
    return await ledger.verify()
