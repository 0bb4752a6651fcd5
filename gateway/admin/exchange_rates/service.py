"""Exchange rates as an administrator keeps them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated

from fastapi import Depends, Request

from billing.currencies import store as rows
from billing.currencies.exchange_rate import BadRate, ExchangeRate
from billing.db.engine import Store
from gateway.admin.exchange_rates.schemas import ExchangeRateBody
from gateway.admin.use_cases import ADMIN, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from routing.types import Clock


@dataclass(frozen=True, slots=True)
class ExchangeRateService:
    """Raises ApiError 400 for a rate that cannot be."""

    ledger: Store
    clock: Clock

    async def put(self, currency: str, day: str, body: ExchangeRateBody) -> ExchangeRate:
        try:
            rate = ExchangeRate(
                currency=currency,
                day=date.fromisoformat(day),
                nano_per_usd=body.units_per_usd,
                source=body.source,
                set_by=ADMIN,
                set_us=round(self.clock() * 1e6),
            )
        except ValueError as wrong:
            raise bad_request(f"date: {wrong}", "date") from wrong
        try:
            return await attempt(lambda: rows.put_rate(self.ledger, rate))
        except BadRate as wrong:
            raise bad_request(str(wrong), wrong.field) from wrong

    async def page(self, request: PageRequest, currency: str | None) -> PageRows[ExchangeRate]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, ExchangeRate]]:
            after = None if behind is None else (behind[0], behind[1])
            found = rows.rates(self.ledger, currency=currency, after=after, limit=limit)
            return [((each.day.isoformat(), each.currency), each) for each in found]

        return await attempt(lambda: read_page(request, Source((str, str), read)))


async def exchange_rates_of(request: Request) -> ExchangeRateService:
    parts = parts_of(request)
    return ExchangeRateService(parts.ledger, parts.outside.clock)


ExchangeRates = Annotated[ExchangeRateService, Depends(exchange_rates_of)]
