"""`/admin/v1/organizations/{id}/terms`: what lowers or raises the price of its months."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.terms.schemas import TermsOfOrganization, TermsOfOrganizationBody
from gateway.admin.terms.service import Terms
from gateway.fields import Label

router = APIRouter(tags=["terms"])

TERMS = "/organizations/{organization_id}/terms"


@router.put(TERMS, response_model=TermsOfOrganization)
async def put_terms(terms: Terms, organization_id: Label, body: TermsOfOrganizationBody) -> Any:
    """All of its terms from now on. They are applied in the order tiers, allowances, percents,
    amounts, minimum. 409 where a month would change that a final invoice has: void it first."""
    return await terms.put(organization_id, body)


@router.get(TERMS, response_model=TermsOfOrganization)
async def show_terms(terms: Terms, organization_id: Label) -> Any:
    """As they were put; an empty list where there are none."""
    return await terms.of(organization_id)
