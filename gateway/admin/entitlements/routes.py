"""`/admin/v1/entitlements`."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.entitlements.schemas import EntitlementAnswer, EntitlementBody
from gateway.admin.entitlements.service import Entitlements
from gateway.api.fields import Scope
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.tenants.tables import Entitlement

router = APIRouter(prefix="/entitlements", tags=["entitlements"])


@router.put("/{scope}", response_model=EntitlementAnswer)
async def set_entitlement(entitlements: Entitlements, scope: Scope, body: EntitlementBody) -> Any:
    return await entitlements.set(scope, body.model_dump(mode="json"))


@router.patch("/{scope}", response_model=EntitlementAnswer)
async def change_entitlement(
    entitlements: Entitlements, scope: Scope, body: EntitlementBody
) -> Any:
    return await entitlements.set(scope, body.model_dump(mode="json", exclude_unset=True))


@router.get("", response_model=Page[EntitlementAnswer])
async def list_entitlements(entitlements: Entitlements, page: Paged) -> Any:
    return await entitlements.store.page(page, Entitlement)
