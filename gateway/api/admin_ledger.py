"""The ledger's accounts and transfers, its proof, and invoices."""

from typing import Any

from fastapi import APIRouter, Query, Request

from billing import queries
from billing.invoices import list_invoices, run_invoices
from billing.money import usd
from billing.periods import BadPeriod
from billing.render.invoice_json import invoice_json
from billing.verify import verify_all
from gateway.api.admin_tenants import attempt
from gateway.api.fields import Label
from gateway.api.needs import parts_of
from gateway.api.shapes import transfer
from gateway.errors import bad_request

router = APIRouter()

LIST_MAX = 1000


@router.get("/ledger/accounts")
async def accounts(request: Request) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    rows = await attempt(lambda: queries.accounts(ledger))
    return {"object": "list", "data": [_account(row) for row in rows]}


@router.get("/ledger/transfers")
async def transfers(
    request: Request,
    organization: Label | None = None,
    limit: int = Query(50, ge=1, le=LIST_MAX),
) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    rows = await attempt(lambda: queries.recent_transfers(ledger, limit, organization))
    return {"object": "list", "data": [transfer(row) for row in rows]}


@router.get("/ledger/verify")
async def verify(request: Request) -> dict[str, Any]:
    """The same checks as `sluice ledger verify`; `ok` is false if a law is broken."""
    parts = parts_of(request)
    report = await verify_all(
        parts.ledger,
        now_us=round(parts.outside.clock() * 1e6),
        spool_root=parts.settings.data.absolute() / "spool",
        redis=parts.redis,
    )
    return report.as_json()


@router.post("/invoices")
async def run(request: Request, period: Label, organization: Label | None = None) -> dict[str, Any]:
    """Draft or finalise a month, `YYYY-MM`; finalised invoices stay as they are."""
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    series = parts.settings.ledger.invoice_series
    try:
        results = await attempt(
            lambda: run_invoices(
                parts.ledger, period, now_us=now_us, series=series, org=organization
            )
        )
    except BadPeriod as wrong:
        raise bad_request(str(wrong), "period") from wrong
    return {"object": "list", "data": [invoice_json(result) for result in results]}


@router.get("/invoices")
async def invoices(
    request: Request, organization: Label | None = None, period: Label | None = None
) -> dict[str, Any]:
    """As they were last written, drafts included."""
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    results = await attempt(
        lambda: list_invoices(parts.ledger, now_us=now_us, org=organization, month=period)
    )
    return {"object": "list", "data": [invoice_json(result) for result in results]}


def _account(row: dict[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in row.items() if k not in ("debits", "credits")}
    return rest | {"debits_usd": usd(row["debits"]), "credits_usd": usd(row["credits"])}
