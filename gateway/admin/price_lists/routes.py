"""`/admin/v1/providers/{name}/price-lists`: what a provider charges us."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.price_lists.schemas import PriceListAnswer, PriceListBody
from gateway.admin.price_lists.service import PriceLists
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import INTEGER_MAX, Label

router = APIRouter(prefix="/providers/{name}/price-lists", tags=["providers"])

ListVersion = Annotated[int, Path(ge=1, le=INTEGER_MAX)]


@router.get("", response_model=Page[PriceListAnswer])
async def list_price_lists(lists: PriceLists, name: Label, request: Paged) -> Any:
    """The newest first."""
    return await lists.page(name, request)


@router.post("", status_code=201, response_model=PriceListAnswer)
async def draft_price_list(lists: PriceLists, name: Label, body: PriceListBody) -> Any:
    """A draft, with what it changes. It counts once it is approved."""
    return await lists.draft(name, body)


@router.get("/{version}", response_model=PriceListAnswer)
async def show_price_list(lists: PriceLists, name: Label, version: ListVersion) -> Any:
    return await lists.one(name, version)


@router.post("/{version}/approve", response_model=PriceListAnswer)
async def approve_price_list(lists: PriceLists, name: Label, version: ListVersion) -> Any:
    """From its instant on it holds for pools of this provider that say no price. It never changes
    again."""
    return await lists.approve(name, version)
