"""The tenant's own reading routes: models with prices and limits, and what became of a call."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from billing.money import usd
from billing.pricebook import Unpriced
from billing.queries import call_by_rid
from gateway.api.fields import Label
from gateway.api.needs import Caller, parts_of
from gateway.api.shapes import explained
from gateway.catalog import CatalogKeeper
from gateway.errors import ApiError, model_not_found
from gateway.wire.anthropic.dialect import VERSION
from gateway.wire.anthropic.models import PAGE_DEFAULT, PAGE_MAX, model_info, page
from gateway.wire.supported import capabilities, supported_parameters
from routing.types import Model, Tier

router = APIRouter(prefix="/v1", tags=["public"])

PageSize = Annotated[int, Query(ge=1, le=PAGE_MAX, description="of Anthropic's clients")]
Beside = Annotated[Label | None, Query(description="of Anthropic's clients")]

LEDGER_LAG_S = 2.0
LEDGER_LOOK_EVERY_S = 0.1


@router.get("/models")
async def list_models(
    request: Request,
    caller: Caller,
    limit: PageSize = PAGE_DEFAULT,
    after_id: Beside = None,
    before_id: Beside = None,
) -> dict[str, Any]:
    """The models that the key may use. For Anthropic's clients, which say `anthropic-version`, in
    its shape and page by page; OpenAI has no pages of them, and all come at once."""
    parts = parts_of(request)
    now_us = round(parts.outside.clock() * 1e6)
    usable = [m for m in parts.catalog.catalog.models.values() if caller.leave.may_use(m.name)]
    models = sorted(usable, key=lambda m: m.size_rank)
    if VERSION in request.headers:
        return page(models, limit, after_id=after_id, before_id=before_id)
    return {
        "object": "list",
        "data": [_shape(m, parts.catalog, now_us, caller.organization) for m in models],
    }


@router.get("/models/{name:path}")
async def retrieve_model(request: Request, name: str, caller: Caller) -> dict[str, Any]:
    parts = parts_of(request)
    model = parts.catalog.catalog.models.get(name)
    if model is None or not caller.leave.may_use(name):
        raise model_not_found(name)
    if VERSION in request.headers:
        return model_info(model)
    now_us = round(parts.outside.clock() * 1e6)
    return _shape(model, parts.catalog, now_us, caller.organization)


@router.get("/generations/{request_id}")
async def explain(request: Request, request_id: Label, caller: Caller) -> dict[str, Any]:
    """Timeline, candidates with reasons, attempts, usage, price version and transfers.

    The ledger is a moment behind; within that moment this waits for it rather than say 404.
    """
    parts, waited_s = parts_of(request), 0.0
    while True:
        found = await asyncio.to_thread(
            call_by_rid, parts.ledger, request_id, org=caller.organization
        )
        if found is not None:
            return explained(found)
        if not waited_s and not await parts.accounts.heard_of(request_id, caller.organization):
            raise ApiError(404, f"No generation '{request_id}'.", code="not_found")
        if waited_s >= LEDGER_LAG_S:
            message = f"The generation '{request_id}' has not ended, or is not in the ledger yet."
            raise ApiError(404, message, code="not_found", retry_after_s=LEDGER_LAG_S)
        await asyncio.sleep(LEDGER_LOOK_EVERY_S)
        waited_s += LEDGER_LOOK_EVERY_S


def _shape(model: Model, keeper: CatalogKeeper, now_us: int, org: str) -> dict[str, Any]:
    tokens = keeper.catalog.counters[model.name]
    return {
        "id": model.name,
        "object": "model",
        "created": model.created_s,
        "owned_by": "sluice",
        "task": model.task.value,
        "context_length": model.context_tokens,
        "max_output_tokens": model.max_output_tokens,
        "supported_parameters": supported_parameters(model, tokens),
        "capabilities": capabilities(model, tokens),
        "pricing": {
            tier.value: priced
            for tier in Tier
            if (priced := _pricing(keeper, model.name, tier, now_us, org))
        },
    }


def _pricing(
    keeper: CatalogKeeper, model: str, tier: Tier, now_us: int, org: str
) -> dict[str, str] | None:
    """USD per million tokens, as decimal strings: what this organization pays."""
    prices = keeper.prices.lookup(model, tier, False, now_us, org)
    if isinstance(prices, Unpriced):
        return None
    return {
        "input": usd(prices.input),
        "cached_input": usd(prices.cached_input),
        "output": usd(prices.output),
        "request": usd(prices.request),
    }
