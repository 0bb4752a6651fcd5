"""`/admin/v1/refusals`: calls that were refused."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gateway.admin.refusals.schemas import RefusalAnswer
from gateway.admin.refusals.service import Refusals
from gateway.api.pages import PagedBy50
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(prefix="/refusals", tags=["requests"])

Reason = Annotated[Label | None, Query(description="only those of this reason")]
Rule = Annotated[Label | None, Query(description="only calls that fell under this rule")]


@router.get("", response_model=Page[RefusalAnswer])
async def list_refusals(
    refusals: Refusals,
    page: PagedBy50,
    organization: Label | None = None,
    reason: Reason = None,
    rule: Rule = None,
) -> Any:
    """The newest first. Of a key, an error and a rule in one minute the first ten calls have a row
    each; the others share one, whose `calls` counts them."""
    return await refusals.page(page, organization=organization, reason=reason, rule=rule)
