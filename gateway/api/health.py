"""`/healthz`: the process runs. `/readyz`: it would take a call."""

from fastapi import APIRouter, Request, Response

from gateway.api.needs import parts_of

router = APIRouter(tags=["health"])
FLEET_AGE_MAX_S = 30.0


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


@router.get("/readyz")
async def readyz(request: Request, response: Response) -> dict[str, object]:
    """503 with the reasons until keys, prices, limits and the fleet are all there."""
    parts = parts_of(request)
    checks = {
        "recovered": parts.accounts.is_ready,
        "prices": bool(parts.catalog.prices.versions),
        "models": bool(parts.catalog.catalog.models),
        "fleet": parts.fleet.age_s < FLEET_AGE_MAX_S,
    }
    response.status_code = 200 if all(checks.values()) else 503
    return {"status": "ready" if all(checks.values()) else "not ready", "checks": checks}
