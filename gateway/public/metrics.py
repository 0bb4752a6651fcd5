"""`/metrics`: what this gateway has counted, for Prometheus. Behind the admin key unless the
settings open it; it says nothing of any tenant either way."""

import asyncio
from collections import Counter

from fastapi import APIRouter, Request, Response

from gateway.admin.authentication import require_admin
from gateway.api.dependencies import parts_of
from gateway.metrics.observer import breaker_states, by_state, nodes_by_state

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Calls, tokens, times and states of this gateway, in Prometheus' text format."""
    parts = parts_of(request)
    observer = parts.observed
    if not parts.settings.gateway.metrics_open:
        await require_admin(request)
    # Not at the top: see there.
    from gateway.metrics.text import CONTENT_TYPE, Now, text

    waiting = Counter(call.waits_for for call in parts.accounts.open.values() if call.waits_for)
    now = Now(
        gateway=observer.gateway_id,
        open_calls=len(parts.accounts.open),
        waiting={pool.name: waiting[pool.name] for pool in parts.catalog.catalog.pools},
        unsettled_calls=parts.accounts.unsettled_count + parts.accounts.left_to_spool,
        limiter_is_away=observer.breaker.is_open,
        limiter_outages=observer.breaker.openings,
        redis_filled=parts.accounts.pressure.fraction,
        spool_bytes=await asyncio.to_thread(observer.spool_bytes),
        loop_lag_s=observer.lag.worst_s,
        fleet_age_s=parts.fleet.age_s,
        decisions_lost=parts.decision_recorder.lost,
        policy_version=parts.policy_keeper.version,
        policy_is_broken=parts.policy_keeper.broken is not None,
        quality_version=parts.quality_keeper.version,
        quality_is_broken=parts.quality_keeper.broken is not None,
        replicas=by_state(parts.fleet.published),
        pools={pool.name: pool for pool in parts.catalog.catalog.pools},
        nodes=nodes_by_state(parts.fleet.nodes),
        spares=parts.fleet.spares,
        starts={pool.name: pool.stages for pool in parts.fleet.published},
        controller_epoch=parts.fleet.leader.epoch,
        node_notices=parts.fleet.notices,
        faults=observer.faults.counts,
        openings=parts.breakers.openings,
        breakers=breaker_states(parts.breakers.by_scope, parts.outside.clock()),
    )
    return Response(text(observer.tally, now), headers={"content-type": CONTENT_TYPE})
