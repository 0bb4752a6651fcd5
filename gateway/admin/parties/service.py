"""Sellers, billing profiles and tax rules as an administrator keeps them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.parties import store as rows
from billing.parties.party import BadParty, BillingProfile, PostalAddress, Seller
from billing.taxes.tax_rule import BadTaxRule, TaxRule
from gateway.admin.parties.schemas import AddressBody, ProfileBody, SellerBody, TaxRuleBody
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class PartyService:
    """Raises ApiError: 404 for what is not there, 400 for what cannot be."""

    ledger: Store
    tenants: TenantStore
    clock: Clock

    async def put_seller(self, seller_id: str, body: SellerBody) -> Seller:
        fields = body.model_dump(exclude={"address"})
        seller = Seller(seller_id=seller_id, address=_address(body.address), **fields)
        return await _checked(lambda: rows.put_seller(self.ledger, seller, self._now_us))

    async def seller(self, seller_id: str) -> Seller:
        return await attempt(lambda: _there(rows.seller(self.ledger, seller_id), seller_id))

    async def sellers(self, request: PageRequest) -> PageRows[Seller]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Seller]]:
            after = None if behind is None else behind[0]
            found = rows.sellers(self.ledger, after=after, limit=limit)
            return [((each.seller_id,), each) for each in found]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def put_profile(self, org: str, body: ProfileBody) -> BillingProfile:
        await attempt(lambda: _there(self.tenants.one(Organization, org), org))
        fields = body.model_dump(exclude={"address", "exemption_until"})
        fields["exemption_until_us"] = body.exemption_until
        profile = BillingProfile(org=org, address=_address(body.address), **fields)
        return await _checked(lambda: rows.put_profile(self.ledger, profile, self._now_us))

    async def profile(self, org: str) -> BillingProfile:
        return await attempt(lambda: _there(rows.profile(self.ledger, org), org))

    async def put_rule(self, rule_id: str, body: TaxRuleBody) -> TaxRule:
        fields = body.model_dump(exclude={"rate", "from_", "to"})
        fields["buyer_postal_codes"] = tuple(body.buyer_postal_codes)
        rule = TaxRule(
            rule_id=rule_id, rate_ppm=body.rate, from_us=body.from_, to_us=body.to, **fields
        )
        return await _checked(lambda: rows.put_rule(self.ledger, rule, self._now_us))

    async def delete_rule(self, rule_id: str) -> TaxRule:
        return await attempt(lambda: _there(rows.delete_rule(self.ledger, rule_id), rule_id))

    async def rules(self, request: PageRequest) -> PageRows[TaxRule]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, TaxRule]]:
            after = None if behind is None else behind[0]
            found = rows.rules(self.ledger, after=after, limit=limit)
            return [((each.rule_id,), each) for each in found]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def _checked(work: Callable[[], Result]) -> Result:
    try:
        return await attempt(work)
    except (BadParty, BadTaxRule) as wrong:
        raise bad_request(str(wrong), wrong.field) from wrong


def _there(found: Result | None, name: str) -> Result:
    if found is None:
        raise NotThere(name)
    return found


def _address(body: AddressBody) -> PostalAddress:
    return PostalAddress(**{**body.model_dump(), "lines": tuple(body.lines)})


async def parties_of(request: Request) -> PartyService:
    parts = parts_of(request)
    return PartyService(parts.ledger, parts.tenants, parts.outside.clock)


Parties = Annotated[PartyService, Depends(parties_of)]
