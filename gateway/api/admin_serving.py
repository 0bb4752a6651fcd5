"""Models, pools and the live fleet."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gateway.admin.serving import Serving
from gateway.api.admin_tenants import attempt
from gateway.api.needs import parts_of
from gateway.catalog import readable_checkpoint
from gateway.errors import bad_request
from gateway.tables import ModelRow, PoolRow

router = APIRouter()

Name = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
PoolName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


class ModelBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    path: str | None = Field(None, description="checkpoint folder; null for an external model")
    context_tokens: int = Field(gt=0)
    max_output_tokens: int = Field(gt=0)
    size_rank: int = Field(ge=0)
    quality: float = Field(ge=0, le=1)


class PoolBody(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: str
    variant: str = "fp16"
    capacity_class: Literal["reserved", "on_demand", "spot", "external"]
    base_url: str | None = None
    api_key_env: str | None = None
    min_replicas: int = Field(0, ge=0)
    max_replicas: int = Field(1, ge=0)
    initial_replicas: int = Field(0, ge=0)
    idle_s: float = Field(300.0, gt=0)
    num_cpus: float = Field(0.25, gt=0)
    max_ongoing: int = Field(8, ge=1)
    cost_nanousd_per_s: int = Field(0, ge=0)
    cost_input_nanousd_per_mtok: int = Field(0, ge=0)
    cost_output_nanousd_per_mtok: int = Field(0, ge=0)
    cold_start_s: float = Field(10.0, ge=0)

    @model_validator(mode="after")
    def is_whole(self) -> "PoolBody":
        if (self.capacity_class == "external") != (self.base_url is not None):
            raise ValueError("an external pool has a base_url, and only an external one")
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
async def put_model(request: Request, name: Name, body: ModelBody) -> dict[str, Any]:
    if (path := body.path) is not None:
        reason = await attempt(lambda: readable_checkpoint(path))
        if reason is not None:
            raise bad_request(reason, "path")
    serving = serving_of(request)
    row = await attempt(lambda: serving.put_model(name, body.model_dump()))
    await applied(request)
    return shape(row)


@router.delete("/models/{name}")
async def disable_model(request: Request, name: str) -> dict[str, Any]:
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


@router.delete("/pools/{name}")
async def disable_pool(request: Request, name: str) -> dict[str, Any]:
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
