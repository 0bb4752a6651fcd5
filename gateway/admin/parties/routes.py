"""`/admin/v1/sellers`, `/admin/v1/organizations/{id}/billing-profile` and `/admin/v1/tax-rules`:
who bills whom, and under which tax."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.parties.schemas import (
    ProfileAnswer,
    ProfileBody,
    SellerAnswer,
    SellerBody,
    TaxRuleAnswer,
    TaxRuleBody,
)
from gateway.admin.parties.service import Parties
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(tags=["parties"])

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"
PartyId = Annotated[str, Path(pattern=ID_PATTERN)]
PROFILE = "/organizations/{organization_id}/billing-profile"


@router.get("/sellers", response_model=Page[SellerAnswer])
async def list_sellers(parties: Parties, request: Paged) -> Any:
    """By their ids."""
    return await parties.sellers(request)


@router.put("/sellers/{seller_id}", response_model=SellerAnswer)
async def put_seller(parties: Parties, seller_id: PartyId, body: SellerBody) -> Any:
    """Documents that are issued already keep the seller they have."""
    return await parties.put_seller(seller_id, body)


@router.get("/sellers/{seller_id}", response_model=SellerAnswer)
async def show_seller(parties: Parties, seller_id: PartyId) -> Any:
    return await parties.seller(seller_id)


@router.put(PROFILE, response_model=ProfileAnswer)
async def put_billing_profile(parties: Parties, organization_id: Label, body: ProfileBody) -> Any:
    """Documents that are issued already keep the profile they have."""
    return await parties.put_profile(organization_id, body)


@router.get(PROFILE, response_model=ProfileAnswer)
async def show_billing_profile(parties: Parties, organization_id: Label) -> Any:
    return await parties.profile(organization_id)


@router.get("/tax-rules", response_model=Page[TaxRuleAnswer])
async def list_tax_rules(parties: Parties, request: Paged) -> Any:
    """By their ids."""
    return await parties.rules(request)


@router.put("/tax-rules/{rule_id}", response_model=TaxRuleAnswer)
async def put_tax_rule(parties: Parties, rule_id: PartyId, body: TaxRuleBody) -> Any:
    """What a rule leaves empty fits everybody. The rule that says most holds."""
    return await parties.put_rule(rule_id, body)


@router.delete("/tax-rules/{rule_id}", response_model=TaxRuleAnswer)
async def delete_tax_rule(parties: Parties, rule_id: PartyId) -> Any:
    """The rule as it was. Documents that are issued already keep their taxes."""
    return await parties.delete_rule(rule_id)
