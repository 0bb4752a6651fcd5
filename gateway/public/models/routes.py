"""`/v1/models`: models with prices and limits."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse

from gateway.api.dependencies import Caller
from gateway.fields import Label
from gateway.public.models.schemas import PublicModel, PublicModels
from gateway.public.models.service import Offers
from gateway.wire.anthropic.dialect import VERSION
from gateway.wire.anthropic.models import PAGE_DEFAULT, PAGE_MAX, model_info, page

router = APIRouter(prefix="/v1/models", tags=["models"])

PageSize = Annotated[int, Query(ge=1, le=PAGE_MAX, description="of Anthropic's clients")]
Beside = Annotated[Label | None, Query(description="of Anthropic's clients")]


@router.get("", response_model=PublicModels)
async def list_models(
    request: Request,
    caller: Caller,
    offers: Offers,
    limit: PageSize = PAGE_DEFAULT,
    after_id: Beside = None,
    before_id: Beside = None,
) -> Any:
    """The models that the key may use. For Anthropic's clients, which say `anthropic-version`, in
    its shape and page by page; OpenAI has no pages of them, and all come at once."""
    models = offers.usable(caller)
    if VERSION in request.headers:
        return JSONResponse(page(models, limit, after_id=after_id, before_id=before_id))
    return {"data": [offers.offer(caller, model) for model in models]}


@router.get("/{name:path}", response_model=PublicModel)
async def retrieve_model(request: Request, name: str, caller: Caller, offers: Offers) -> Any:
    model = offers.model(caller, name)
    if VERSION in request.headers:
        return JSONResponse(model_info(model))
    return offers.offer(caller, model)
