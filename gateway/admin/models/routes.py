"""`/admin/v1/models`."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.models.schemas import ModelAnswer, ModelBody, ModelsApplication
from gateway.admin.models.service import Declarations, Models
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.catalog.model import ModelName
from gateway.catalog.tables import ModelRow

router = APIRouter(prefix="/models", tags=["models"])


@router.get("", response_model=Page[ModelAnswer])
async def list_models(models: Models, page: Paged) -> Any:
    return await models.store.page(page, ModelRow)


@router.put("/{name}", response_model=ModelAnswer)
async def put_model(models: Models, name: ModelName, body: ModelBody) -> Any:
    return await models.put(name, body.model_dump())


@router.delete("/{name}", response_model=ModelAnswer)
async def disable_model(models: Models, name: ModelName) -> Any:
    return await models.disable(name)


@router.post("/apply", response_model=ModelsApplication)
async def apply_models(
    declarations: Declarations,
    document: dict[str, Any],
    dry_run: bool = False,
    verify: bool = False,
) -> Any:
    """Models by declaration: the document of `models.toml`, as JSON. Adds or changes
    hardware, models, variants, pools and prices as declared; paths are absolute here. Answers when
    all of it is done, downloads included; 400 names every mistake."""
    return await declarations.apply(document, dry_run=dry_run, verify=verify)
