"""`/admin/v1/limits` of organizations, projects and keys, of one model or end user within them; and
`/admin/v1/outages`."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.limits.schemas import (
    LimitsAnswer,
    LimitsBody,
    LimitScope,
    OutageAnswer,
    OutageBody,
)
from gateway.admin.limits.service import AdminLimits
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.limits.tables import Limits, NarrowLimits, OutageRow

router = APIRouter(tags=["limits"])


@router.put("/limits/{scope:path}", response_model=LimitsAnswer)
async def set_limits(limits: AdminLimits, scope: LimitScope, body: LimitsBody) -> Any:
    return await limits.set(scope, body.model_dump())


@router.patch("/limits/{scope:path}", response_model=LimitsAnswer)
async def change_limits(limits: AdminLimits, scope: LimitScope, body: LimitsBody) -> Any:
    return await limits.set(scope, body.model_dump(exclude_unset=True))


@router.get("/limits", response_model=Page[LimitsAnswer])
async def list_limits(limits: AdminLimits, page: Paged) -> Any:
    """Those of scopes first, then those of models and end users."""
    return await limits.store.page(page, Limits, NarrowLimits)


@router.put("/outages/{organization_id}", response_model=OutageAnswer)
async def set_outage(limits: AdminLimits, organization_id: Label, body: OutageBody) -> Any:
    row = await limits.set_outage(organization_id, body.mode, body.spend_cap_usd)
    return row.model_dump() | {"mode": body.mode}


@router.get("/outages", response_model=Page[OutageAnswer])
async def list_outages(limits: AdminLimits, page: Paged) -> Any:
    return await limits.store.page(page, OutageRow)
