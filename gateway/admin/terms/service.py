"""Terms of organizations as an administrator keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Request

from billing.db.engine import Store
from billing.invoices.terms import MonthBilled, put_terms, terms
from billing.terms.term import BadTerms, Term
from gateway.admin.terms.schemas import TermsOfOrganizationBody
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.errors import ApiError, bad_request
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class TermService:
    """Raises ApiError: 404 for an organization that is not there, 400 for terms that cannot be, 409
    for a month that is billed."""

    ledger: Store
    tenants: TenantStore
    clock: Clock

    async def put(self, org: str, body: TermsOfOrganizationBody) -> dict[str, Any]:
        new, now_us = [each.term() for each in body.terms], round(self.clock() * 1e6)

        def put() -> Sequence[Term]:
            self._check(org)
            return put_terms(self.ledger, org, new, now_us)

        try:
            return _answer(org, await attempt(put))
        except BadTerms as wrong:
            raise bad_request(str(wrong), wrong.field) from wrong
        except MonthBilled as billed:
            raise ApiError(
                409, f"{billed}: void it, then change its terms.", code="month_billed"
            ) from billed

    async def of(self, org: str) -> dict[str, Any]:
        def read() -> Sequence[Term]:
            self._check(org)
            return terms(self.ledger, org)

        return _answer(org, await attempt(read))

    def _check(self, org: str) -> None:
        if self.tenants.one(Organization, org) is None:
            raise NotThere(org)


def _answer(org: str, terms: Sequence[Term]) -> dict[str, Any]:
    return {"organization": org, "terms": [msgspec.to_builtins(term) for term in terms]}


async def terms_of(request: Request) -> TermService:
    parts = parts_of(request)
    return TermService(parts.ledger, parts.tenants, parts.outside.clock)


Terms = Annotated[TermService, Depends(terms_of)]
