"""The invoices of the organization that a key belongs to, and never another's."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Annotated

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.invoices.months import invoice_named, list_invoices
from billing.invoices.result import InvoiceResult
from gateway.admin.use_cases import NotThere, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class OwnInvoiceList:
    ledger: Store
    clock: Clock

    async def page(self, request: PageRequest, organization: str) -> PageRows[InvoiceResult]:
        """By month and revision, the oldest first."""
        now_us = round(self.clock() * 1e6)

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, InvoiceResult]]:
            after = None if behind is None else (behind[0], behind[1], behind[2])
            results = list_invoices(
                self.ledger, now_us=now_us, org=organization, after=after, limit=limit
            )
            key = itemgetter("period", "org", "revision")
            return [(key(each.invoice), each) for each in results]

        return await attempt(lambda: read_page(request, Source((str, str, int), read)))

    async def read(self, name: str, organization: str) -> InvoiceResult:
        """By its id or its number. Raises ApiError 404, also for another's."""
        now_us = round(self.clock() * 1e6)

        def work() -> InvoiceResult:
            with self.ledger.read() as conn:
                result = invoice_named(conn, name, now_us)
            if result is None or result.invoice["org"] != organization:
                raise NotThere(name)
            return result

        return await attempt(work)


async def own_invoices_of(request: Request) -> OwnInvoiceList:
    parts = parts_of(request)
    return OwnInvoiceList(parts.ledger, parts.outside.clock)


OwnInvoices = Annotated[OwnInvoiceList, Depends(own_invoices_of)]
