"""`/admin/v1/credits`: grants of credit, given under an id of the caller's choice and voided; and
`/admin/v1/organizations/{id}/credit-alerts`: what is told of an organization's credit.

What was told stands in the list of `/admin/v1/budgets/alerts`.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from gateway.admin.credits.schemas import (
    ID_PATTERN,
    CreditAlerts,
    CreditAlertsBody,
    CreditGrant,
    CreditGrants,
    GrantBody,
)
from gateway.admin.credits.service import Credits
from gateway.api.pages import BEHIND, LIMIT_MAX
from gateway.fields import Label

router = APIRouter(tags=["credits"])

GrantId = Annotated[str, Path(pattern=ID_PATTERN)]
ALERTS = "/organizations/{organization_id}/credit-alerts"


@router.post(
    "/credits",
    status_code=201,
    response_model=CreditGrant,
    responses={200: {"model": CreditGrant, "description": "It was given before"}},
)
async def give_credit(credits: Credits, body: GrantBody, response: Response) -> Any:
    """201 for a new grant, 200 for one that was given before under the same id."""
    grant, is_new = await credits.give(body)
    if not is_new:
        response.status_code = 200
    return grant


@router.get("/credits", response_model=CreditGrants)
async def list_credits(
    credits: Credits,
    organization: Label | None = None,
    limit: int = Query(100, ge=1, le=LIMIT_MAX),
    after: str | None = Query(None, pattern=ID_PATTERN, description=BEHIND),
) -> Any:
    """The oldest first."""
    return await credits.page(organization, after, limit)


@router.get("/credits/{grant_id}", response_model=CreditGrant)
async def show_credit(credits: Credits, grant_id: GrantId) -> Any:
    return await credits.grant(grant_id)


@router.post("/credits/{grant_id}/void", response_model=CreditGrant)
async def void_credit(credits: Credits, grant_id: GrantId) -> Any:
    """It pays for no call that is admitted from `voided_at` on, a few seconds from now, when every
    gateway knows; again changes nothing."""
    return await credits.void(grant_id)


@router.get(ALERTS, response_model=CreditAlerts)
async def show_credit_alerts(credits: Credits, organization_id: Label) -> Any:
    """As of the last movement of its credit."""
    return await credits.watched(organization_id)


@router.put(ALERTS, response_model=CreditAlerts)
async def set_credit_alerts(
    credits: Credits, organization_id: Label, body: CreditAlertsBody
) -> Any:
    """Each is told when the credit in force is found below it, at once if it is so now, and again
    only after new credit or a correction has lifted it to the threshold."""
    return await credits.watch(organization_id, body)
