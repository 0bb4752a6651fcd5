"""Calls as the ledger has them."""

from typing import Any

from fastapi import APIRouter, Query, Request

from billing import queries
from gateway.api.admin_tenants import attempt
from gateway.api.fields import Label
from gateway.api.needs import parts_of
from gateway.api.shapes import costed, explained, summary
from gateway.errors import ApiError

router = APIRouter()

LIST_MAX = 1000


@router.get("/requests")
async def list_requests(
    request: Request,
    organization: Label | None = None,
    limit: int = Query(50, ge=1, le=LIST_MAX),
) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    calls = await attempt(lambda: queries.recent_calls(ledger, limit, organization))
    return {"object": "list", "data": [summary(call) for call in calls]}


@router.get("/requests/{request_id}")
async def explain_request(request: Request, request_id: Label) -> dict[str, Any]:
    ledger = parts_of(request).ledger
    found = await attempt(lambda: queries.call_by_rid(ledger, request_id))
    if found is None:
        raise ApiError(404, f"No request '{request_id}'.", code="not_found")
    return explained(found) | costed(found)
