"""How long a first attempt waits for its first token, where what is usual is known. Pure.

Knows no attempt and no task; hands out seconds."""

from typing import Final

from routing.health.hedge import first_token_s
from routing.speeds import QUANTILES
from routing.types import Call, PoolState, Task, Tier

QUANTILE: Final = 0.99
TIMES: Final = 3.0
"""Of what only one answer in a hundred exceeds: beyond it a server is not slow, it is ill."""
FLOOR_S: Final = 2.0
"""Sooner no server is left: below that a busy network is no ill server."""


def first_token_bound_s(call: Call, state: PoolState | None, default_s: float) -> float:
    """Seconds for the first token of this pool, where the call has another one to go to: for a
    priority call three times the 99th percentile for a prompt of this size, between `FLOOR_S` and
    `default_s`. Calls of other tiers, and pools of which nothing was learned, have `default_s`."""
    if call.tier is not Tier.PRIORITY or call.task is not Task.GENERATE:
        return default_s
    if state is None or state.learned is None:
        return default_s
    speeds = state.learned
    expected_s = first_token_s(speeds, call.likely_prompt_tokens(state.pool.model))
    most_s = expected_s * speeds.ttft_factors[QUANTILES.index(QUANTILE)]
    return min(default_s, max(FLOOR_S, TIMES * most_s))
