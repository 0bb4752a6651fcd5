"""`/admin/v1/exchange-rates`: how much of another currency a USD is, day by day."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from gateway.admin.exchange_rates.schemas import ExchangeRateAnswer, ExchangeRateBody
from gateway.admin.exchange_rates.service import ExchangeRates
from gateway.admin.parties.schemas import CURRENCY
from gateway.api.pages import Paged
from gateway.api.schemas import Page

router = APIRouter(prefix="/exchange-rates", tags=["parties"])

DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
OfCurrency = Annotated[str, Path(pattern=CURRENCY, description="of ISO 4217", examples=["EUR"])]
OfDay = Annotated[str, Path(pattern=DAY, description="in UTC", examples=["2026-11-27"])]
Wanted = Annotated[str | None, Query(pattern=CURRENCY, examples=["EUR"])]


@router.get("", response_model=Page[ExchangeRateAnswer])
async def list_exchange_rates(rates: ExchangeRates, request: Paged, currency: Wanted = None) -> Any:
    """The newest day first."""
    return await rates.page(request, currency)


@router.put("/{currency}/{date}", response_model=ExchangeRateAnswer)
async def put_exchange_rate(
    rates: ExchangeRates, currency: OfCurrency, date: OfDay, body: ExchangeRateBody
) -> Any:
    """The same again changes nothing. Documents that are issued already keep the rate they have."""
    return await rates.put(currency, date, body)
