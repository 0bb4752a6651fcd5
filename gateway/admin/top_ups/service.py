"""Top-ups as an administrator books, reads and gives them back."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.credits import grants
from billing.db.engine import Store
from billing.documents.invoice_document import NO_TERMS, SELLER, party_named
from billing.documents.parties import NamedParties
from billing.invoices.guards import Guards
from billing.payments.payment import Receipt, cents_of
from billing.settings import guards_of
from billing.top_ups import topping_up
from billing.top_ups.topping_up import TopUpState, Unsold
from gateway.admin.payments.schemas import PayBody, RefundBody
from gateway.admin.payments.service import cents_of_body, checked
from gateway.admin.use_cases import ADMIN, NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.limits.credits import CreditLines
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Organization
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class TopUpService:
    """Raises ApiError: 404 for what is not there, 400 for an amount that cannot be, 409 for an
    organization without a billing profile, an external id that stands for something else, and more
    than is left."""

    ledger: Store
    tenants: TenantStore
    lines: CreditLines
    series: str
    guards: Guards
    clock: Clock

    async def top_up(self, organization: str, body: PayBody) -> tuple[TopUpState, bool]:
        """The top-up, and whether it is new."""
        now_us = self._now_us

        def work() -> tuple[TopUpState, bool]:
            owner = self.tenants.one(Organization, organization)
            if owner is None:
                raise NotThere(organization)
            receipt = Receipt(
                org=organization,
                external_id=body.external_id,
                amount_cents=cents_of_body(body),
                received_us=now_us if body.received_at is None else body.received_at,
                currency=body.currency,
                note=body.note,
            )
            unsold = Unsold(
                NamedParties(SELLER, party_named(owner.name), None, NO_TERMS), self.series
            )
            return topping_up.top_up(
                *(self.ledger, receipt),
                by=ADMIN,
                now_us=now_us,
                unsold=unsold,
                guards=self.guards,
            )

        state, is_new = await checked(work)
        await self._learn(state)
        return state, is_new

    async def refund(self, top_up_id: str, body: RefundBody) -> TopUpState:
        now_us = self._now_us

        def work() -> TopUpState:
            amount = body.amount_usd
            cents = None if amount is None else cents_of(amount, "amount_usd")
            words = {"external_id": body.external_id, "reason": body.reason, "by": ADMIN}
            return topping_up.refund(self.ledger, top_up_id, cents, **words, now_us=now_us)

        state = await checked(work)
        await self._learn(state)
        return state

    async def page(self, request: PageRequest, organization: str | None) -> PageRows[TopUpState]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, TopUpState]]:
            after = None if behind is None else (behind[0], behind[1])
            found = topping_up.list_top_ups(self.ledger, org=organization, after=after, limit=limit)
            return [((s.top_up["created_us"], s.top_up["top_up_id"]), s) for s in found]

        return await attempt(lambda: read_page(request, Source((int, str), read)))

    async def _learn(self, state: TopUpState) -> None:
        """This gateway knows at once; the others hear of it from the ledger."""
        self.lines.learn(await asyncio.to_thread(grants.line_of, self.ledger, state.top_up["org"]))

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def top_ups_of(request: Request) -> TopUpService:
    parts = parts_of(request)
    return TopUpService(
        ledger=parts.ledger,
        tenants=parts.tenants,
        lines=parts.accounts.credits,
        series=parts.settings.ledger.invoice_series,
        guards=guards_of(parts.settings.ledger, parts.settings.tax),
        clock=parts.outside.clock,
    )


TopUps = Annotated[TopUpService, Depends(top_ups_of)]
