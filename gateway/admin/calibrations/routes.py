"""`/admin/v1/calibrations`: what this gateway has learned of pools, and what their tokens cost."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from gateway.admin.calibrations.schemas import CalibrationAnswer
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, Paged, Source, read_page
from gateway.api.schemas import Page
from gateway.catalog.pool import PoolName
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.speeds.pool_speeds import PoolSpeeds, speeds_of

router = APIRouter(prefix="/calibrations", tags=["calibrations"])


async def _parts(request: Request) -> Parts:
    return parts_of(request)


GivenParts = Annotated[Parts, Depends(_parts)]


@router.get("", response_model=Page[CalibrationAnswer])
async def list_calibrations(parts: GivenParts, page: Paged) -> Any:
    """Each gateway learns from its own calls, and begins with what another one has kept."""
    return read_page(page, Source((str,), lambda key, limit: _behind(parts, key, limit)))


@router.get("/{pool}", response_model=CalibrationAnswer)
async def show_calibration(parts: GivenParts, pool: PoolName) -> Any:
    state = parts.fleet.state(pool)
    if state is None:
        raise ApiError(404, f"There is no pool '{pool}'.", code="not_found")
    return speeds_of(state, parts.learner)


def _behind(parts: Parts, key: Key | None, limit: int) -> list[tuple[Key, PoolSpeeds]]:
    states = sorted(parts.fleet.snapshot().pools, key=lambda state: state.pool.name)
    behind = [state for state in states if key is None or (state.pool.name,) > key]
    return [((s.pool.name,), speeds_of(s, parts.learner)) for s in behind[:limit]]
