"""`/healthz`, and by the names that Kubernetes (`/livez`) and vLLM's clients (`/health`) ask for:
the process runs. `/readyz`: it would take a call."""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response

from gateway.api.dependencies import parts_of
from gateway.api.schemas import Answer

router = APIRouter(tags=["health"])
FLEET_AGE_MAX_S = 30.0


class Health(Answer):
    status: Literal["ok"] = "ok"


class Readiness(Answer):
    status: Literal["ready", "not ready"]
    checks: dict[str, bool]


@router.get("/health", response_model=Health)
@router.get("/livez", response_model=Health)
@router.get("/healthz", response_model=Health)
async def healthz() -> Any:
    return Health()


@router.get("/readyz", response_model=Readiness)
async def readyz(request: Request, response: Response) -> Any:
    """503 with the reasons until keys, prices, limits and the fleet are all there."""
    parts = parts_of(request)
    checks = {
        "recovered": parts.accounts.is_ready,
        "prices": bool(parts.catalog.prices.versions),
        "models": bool(parts.catalog.catalog.models),
        "fleet": parts.fleet.age_s < FLEET_AGE_MAX_S,
    }
    response.status_code = 200 if all(checks.values()) else 503
    return Readiness(status="ready" if all(checks.values()) else "not ready", checks=checks)
