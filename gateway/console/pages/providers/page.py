"""`/console/providers`: how providers are, their keys by name, what they cost, and a test."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.pools.service import Checker
from gateway.admin.price_lists.service import PriceLists, PriceListService, SeenList
from gateway.admin.providers.schemas import ProviderCheckBody
from gateway.admin.providers.service import CheckedProvider, Providers, ProviderService
from gateway.admin.reconciliations.service import Reconciliations, ReconciliationService
from gateway.api.pages import PageRequest
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.providers.rows import (
    ProvidersView,
    ProviderView,
    TriedView,
    bill_view,
    list_view,
    provider_view,
    tried_view,
)
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import Label

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/providers"
ROWS = PageRequest(50, None)
LAST = PageRequest(3, None)
"""Price lists and bills of a provider."""


@router.get("/providers")
async def show_providers(
    request: Request, providers: Providers, lists: PriceLists, bills: Reconciliations
) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return await _shown(context_of(request), providers, lists, bills)


@router.post("/providers/{name}/check")
async def check_provider(
    request: Request,
    providers: Providers,
    lists: PriceLists,
    bills: Reconciliations,
    checker: Checker,
    name: Label,
) -> Response:
    """One tiny call, which no tenant pays for; the page says what came."""
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(HOME, status_code=303))
    tested: CheckedProvider | str
    try:
        tested = await providers.check(name, ProviderCheckBody(), checker)
    except ApiError as refused:
        tested = refused.message
    except SQLAlchemyError:
        return page("away.html", 503, title="Providers")
    desk = context_of(request)
    return await _shown(desk, providers, lists, bills, tried_view(name, tested))


async def _shown(
    desk: ConsoleContext,
    providers: ProviderService,
    lists: PriceListService,
    bills: ReconciliationService,
    test: TriedView | None = None,
) -> Response:
    try:
        rows = await providers.page(ROWS)
        seen = [await _seen(desk, row, lists, bills) for row in rows.data]
    except SQLAlchemyError:
        return page("away.html", 503, title="Providers")
    view = ProvidersView(tuple(seen), rows.has_more, test)
    return page("providers.html", view=view)


async def _seen(
    desk: ConsoleContext,
    row: dict[str, object],
    lists: PriceListService,
    bills: ReconciliationService,
) -> ProviderView:
    name, now_us = str(row["name"]), desk.now_us
    listed: list[SeenList] = []
    if row["is_account"]:
        listed = [*(await lists.page(name, LAST)).data]
    posted = (await bills.page(name, LAST)).data
    return provider_view(
        row,
        [list_view(each, now_us) for each in listed],
        [bill_view(each, now_us) for each in posted],
        now_us,
    )
