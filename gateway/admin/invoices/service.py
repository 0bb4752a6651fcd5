"""Invoices as an administrator makes and reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.invoices.months import InvoiceResult, list_invoices, run_invoices
from billing.periods import BadPeriod
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class InvoiceService:
    ledger: Store
    series: str
    clock: Clock

    async def run(self, period: str, organization: str | None) -> Sequence[InvoiceResult]:
        """Raises ApiError 400 for what is no month."""
        try:
            return await attempt(
                lambda: run_invoices(
                    *(self.ledger, period),
                    now_us=self._now_us,
                    series=self.series,
                    org=organization,
                )
            )
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong

    async def page(
        self, request: PageRequest, organization: str | None, period: str | None
    ) -> PageRows[InvoiceResult]:
        """By month and organization."""
        now_us = self._now_us

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, InvoiceResult]]:
            after = None if behind is None else (behind[0], behind[1])
            results = list_invoices(
                self.ledger,
                now_us=now_us,
                org=organization,
                month=period,
                after=after,
                limit=limit,
            )
            return [((each.invoice["period"], each.invoice["org"]), each) for each in results]

        return await attempt(lambda: read_page(request, Source((str, str), read)))

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


async def invoices_of(request: Request) -> InvoiceService:
    parts = parts_of(request)
    series = parts.settings.ledger.invoice_series
    return InvoiceService(parts.ledger, series, parts.outside.clock)


Invoices = Annotated[InvoiceService, Depends(invoices_of)]
