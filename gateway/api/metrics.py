"""`/metrics`: what this gateway has counted, for Prometheus. Behind the admin key unless the
settings open it; it says nothing of any tenant either way."""

import asyncio
from collections import Counter

from fastapi import APIRouter, Request, Response

from gateway.api.needs import parts_of, require_admin
from gateway.metrics.observed import by_state

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Calls, tokens, times and states of this gateway, in Prometheus' text format."""
    parts = parts_of(request)
    seen = parts.observed
    if not parts.settings.gateway.metrics_open:
        await require_admin(request)
    # Not at the top: see there.
    from gateway.metrics.text import CONTENT_TYPE, Now, text

    waiting = Counter(call.waits_for for call in parts.accounts.open.values() if call.waits_for)
    now = Now(
        open_calls=len(parts.accounts.open),
        waiting={pool.name: waiting[pool.name] for pool in parts.catalog.catalog.pools},
        unsettled_calls=parts.accounts.unsettled_count + parts.accounts.left_to_spool,
        limiter_is_away=seen.breaker.is_open,
        redis_filled=parts.accounts.pressure.fraction,
        spool_bytes=await asyncio.to_thread(seen.spool_bytes),
        loop_lag_s=seen.lag.worst_s,
        fleet_age_s=parts.fleet.age_s,
        replicas=by_state(parts.fleet.pools_as_published()),
    )
    return Response(text(seen.tally, now), headers={"content-type": CONTENT_TYPE})
