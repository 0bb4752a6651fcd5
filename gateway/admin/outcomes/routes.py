"""`GET /admin/v1/policies/{version}/outcomes`: what canary and shadow chose."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gateway.admin.outcomes.schemas import PolicyOutcomesAnswer
from gateway.admin.outcomes.service import Outcomes
from gateway.admin.versions.schemas import Version

router = APIRouter(prefix="/policies", tags=["policies"])

Hours = Annotated[int, Query(ge=1, le=24, description="back from now")]


@router.get("/{version}/outcomes", response_model=PolicyOutcomesAnswer)
async def show_policy_outcomes(outcomes: Outcomes, version: Version, hours: Hours = 6) -> Any:
    """Of each canary both sides, with what became of their calls. Of each shadow how often it
    differed from what was done, with examples."""
    return await outcomes.of_version(version, hours)
