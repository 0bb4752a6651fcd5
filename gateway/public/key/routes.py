"""`GET /v1/key`: what the calling key may do, its limits, and what is left of its money."""

from typing import Any

from fastapi import APIRouter

from gateway.api.dependencies import Caller
from gateway.public.key.schemas import OwnKey
from gateway.public.key.service import OwnStandings

router = APIRouter(prefix="/v1", tags=["key"])


@router.get("/key", response_model=OwnKey)
async def own_key(caller: Caller, standings: OwnStandings) -> Any:
    """Each scope binds on its own: the tightest of the three counts. A null is no limit."""
    return await standings.of(caller)
