"""Models, pools and the live fleet."""

from typing import Any, Literal, Self

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gateway.admin.serving import Serving
from gateway.api.admin_tenants import attempt
from gateway.api.fields import (
    DAY_S,
    INTEGER_MAX,
    YEAR_S,
    CostNanousd,
    Count,
    Label,
    ModelName,
    PoolName,
    Several,
)
from gateway.api.needs import parts_of
from gateway.catalog import unreadable_because
from gateway.errors import bad_request
from gateway.settings import HTTP_URL, IMAGE_TOKENS_MAX
from gateway.tables import ModelRow, PoolRow
from routing.types import AUTO_MODEL, Task
from workers.engines.names import EMBEDDING, ENGINE_NAMES

router = APIRouter()


class ModelBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str | None = Field(None, description="checkpoint folder; null for an external model")
    context_tokens: Several
    max_output_tokens: Several
    size_rank: Count
    quality: float = Field(strict=True, ge=0, le=1)
    task: Task = Task.GENERATE
    image_tokens: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=IMAGE_TOKENS_MAX,
        description="the most prompt tokens one image may cost; null: it takes none",
    )

    @model_validator(mode="after")
    def _images_are_seen_outside(self) -> Self:
        if self.image_tokens is not None and self.path is not None:
            raise ValueError("image_tokens is for models of external servers alone")
        return self


class PoolBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: Label
    variant: Label = "fp16"
    capacity_class: Literal["reserved", "on_demand", "spot", "external"]
    engine: str | None = Field(None, description="null: what the task of the model asks for")
    base_url: str | None = Field(None, pattern=HTTP_URL)
    api_key_env: Label | None = None
    min_replicas: Count = 0
    max_replicas: Count = 1
    initial_replicas: Count = 0
    idle_s: float = Field(300.0, strict=True, gt=0, le=YEAR_S)
    num_cpus: float = Field(0.25, strict=True, gt=0, le=INTEGER_MAX)
    num_gpus: float = Field(0.0, strict=True, ge=0, le=INTEGER_MAX)
    max_ongoing: Several = 8
    cost_nanousd_per_s: CostNanousd = 0
    cost_input_nanousd_per_mtok: CostNanousd = 0
    cost_output_nanousd_per_mtok: CostNanousd = 0
    cold_start_s: float = Field(10.0, strict=True, ge=0, le=DAY_S)

    @model_validator(mode="after")
    def is_whole(self) -> "PoolBody":
        if (self.capacity_class == "external") != (self.base_url is not None):
            raise ValueError("an external pool has a base_url, and only an external one")
        if self.engine is not None and self.engine not in (*ENGINE_NAMES, EMBEDDING):
            raise ValueError(f"no engine is named {self.engine}")
        if not self.min_replicas <= self.max_replicas >= self.initial_replicas:
            raise ValueError("max_replicas is less than the pool starts with")
        return self


def serving_of(request: Request) -> Serving:
    parts = parts_of(request)
    return Serving(parts.tenants, parts.outside.clock)


async def applied(request: Request) -> None:
    """The gateway that made a change sees it at once; the others within one poll."""
    await parts_of(request).catalog.refresh()


@router.get("/models")
async def list_models(request: Request) -> dict[str, Any]:
    rows = await attempt(lambda: parts_of(request).tenants.every(ModelRow))
    return {"object": "list", "data": [shape(row) for row in rows]}


@router.put("/models/{name}")
async def put_model(request: Request, name: ModelName, body: ModelBody) -> dict[str, Any]:
    if name == AUTO_MODEL:
        raise bad_request(f"'{AUTO_MODEL}' asks the router to choose and names no model.", "name")
    if (path := body.path) is not None:
        reason = await attempt(lambda: unreadable_because(path, body.task))
        if reason is not None:
            raise bad_request(reason, "path")
    serving = serving_of(request)
    row = await attempt(lambda: serving.put_model(name, body.model_dump()))
    await applied(request)
    return shape(row)


@router.delete("/models/{name}")
async def disable_model(request: Request, name: ModelName) -> dict[str, Any]:
    serving = serving_of(request)
    row = await attempt(lambda: serving.disable_model(name))
    await applied(request)
    return shape(row)


@router.get("/pools")
async def list_pools(request: Request) -> dict[str, Any]:
    rows = await attempt(lambda: parts_of(request).tenants.every(PoolRow))
    return {"object": "list", "data": [shape(row) for row in rows]}


@router.put("/pools/{name}")
async def put_pool(request: Request, name: PoolName, body: PoolBody) -> dict[str, Any]:
    serving = serving_of(request)
    row = await attempt(lambda: serving.put_pool(name, body.model_dump()))
    await applied(request)
    return shape(row)


@router.patch("/pools/{name}")
async def change_pool(request: Request, name: PoolName, changes: dict[str, Any]) -> dict[str, Any]:
    """Some fields of a pool; what is left out stays as it is, where PUT takes its default."""
    serving = serving_of(request)
    known = await attempt(lambda: serving.pool(name))
    fields = {field: getattr(known, field) for field in PoolBody.model_fields}
    try:
        body = PoolBody.model_validate(fields | changes)
    except ValidationError as wrong:
        raise RequestValidationError(wrong.errors()) from wrong
    row = await attempt(lambda: serving.put_pool(name, body.model_dump()))
    await applied(request)
    return shape(row)


@router.delete("/pools/{name}")
async def disable_pool(request: Request, name: PoolName) -> dict[str, Any]:
    serving = serving_of(request)
    row = await attempt(lambda: serving.disable_pool(name))
    await applied(request)
    return shape(row)


@router.get("/fleet")
async def fleet(request: Request) -> dict[str, Any]:
    """Pools with replica states and reasons, this gateway's open calls, and its staleness."""
    parts = parts_of(request)
    return {
        "object": "fleet",
        "age_s": round(parts.fleet.age_s, 3),
        "pools": parts.fleet.pools_as_published(),
        "gateway": {
            "open_calls": len(parts.accounts.open),
            "unsettled_calls": parts.accounts.unsettled_count,
            "in_flight": parts.fleet.in_flight,
        },
    }


def shape(row: ModelRow | PoolRow) -> dict[str, Any]:
    return {"object": row.__tablename__} | row.model_dump()
