"""`/admin/v1/variants`: sets of weights of a model, each by the name of its model and its own."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.variants.schemas import VariantAnswer, VariantBody
from gateway.admin.variants.service import Variants
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.catalog.model import ModelName
from gateway.catalog.tables import VariantRow
from gateway.catalog.variant import VariantName

router = APIRouter(prefix="/variants", tags=["variants"])


@router.get("", response_model=Page[VariantAnswer])
async def list_variants(variants: Variants, page: Paged) -> Any:
    return await variants.store.page(page, VariantRow)


@router.get("/{model}/{name}", response_model=VariantAnswer)
async def show_variant(variants: Variants, model: ModelName, name: VariantName) -> Any:
    return await variants.get(model, name)


@router.put("/{model}/{name}", response_model=VariantAnswer)
async def put_variant(
    variants: Variants, model: ModelName, name: VariantName, body: VariantBody
) -> Any:
    """Pools of the model whose `variant` is this name run it from now on."""
    return await variants.put(model, name, body)


@router.delete("/{model}/{name}", response_model=VariantAnswer)
async def disable_variant(variants: Variants, model: ModelName, name: VariantName) -> Any:
    return await variants.disable(model, name)
