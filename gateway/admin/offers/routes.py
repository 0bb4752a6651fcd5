"""`/admin/v1/offers`: serverless, dedicated or bare metal for a model's traffic."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.offers.schemas import OfferAsked, OffersAnswer
from gateway.admin.offers.service import Offers

router = APIRouter(prefix="/offers", tags=["offers"])


@router.get("", response_model=OffersAnswer)
async def show_offers(offers: Offers, query: OfferAsked) -> Any:
    """The month's cost of each way to buy capacity, and from how many requests a day on the next
    one pays. Without a traffic: that of the last seven days."""
    return await offers.offers(query)
