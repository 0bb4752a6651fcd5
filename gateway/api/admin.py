"""`/admin/v1`: thin routes over the use cases in `gateway/admin`, guarded by the admin key."""

from fastapi import APIRouter, Depends

from gateway.api import (
    admin_budgets,
    admin_credit_alerts,
    admin_credits,
    admin_dead_letters,
    admin_ledger,
    admin_limits,
    admin_margins,
    admin_models,
    admin_money,
    admin_prices,
    admin_serving,
    admin_tenants,
    admin_usage,
)
from gateway.api.needs import require_admin, require_json

router = APIRouter(
    prefix="/admin/v1", tags=["admin"], dependencies=[Depends(require_admin), Depends(require_json)]
)
for part in (
    admin_tenants,
    admin_limits,
    admin_budgets,
    admin_credits,
    admin_credit_alerts,
    admin_serving,
    admin_models,
    admin_prices,
    admin_money,
    admin_usage,
    admin_margins,
    admin_ledger,
    admin_dead_letters,
):
    router.include_router(part.router)
