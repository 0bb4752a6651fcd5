"""`POST /admin/v1/route/explain`: what would happen to a call now."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.route.schemas import ExplainBody, RouteExplanation
from gateway.admin.route.service import Routing

router = APIRouter(prefix="/route", tags=["requests"])


@router.post("/explain", response_model=RouteExplanation)
async def explain_route(routing: Routing, body: ExplainBody) -> Any:
    """Takes nothing, runs nothing and changes nothing. A body that its route would refuse is
    refused here in the same words."""
    return await routing.explain(body)
