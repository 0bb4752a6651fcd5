"""How long an attempt waits for a connection, its first token and the next one, where it is known
what is usual of its pool. Pure.

Each bound is a multiple of what only one answer in a hundred exceeds: beyond it a server is not
slow, it is ill. Knows no attempt and no task; hands out seconds, never more than the default.
"""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from routing.health.hedge import first_token_s
from routing.speeds import QUANTILES, Speeds
from routing.types import Call, PoolState, ReplicaState, Task, Tier

DOCUMENT_TOKEN_S: Final = 0.02
"""So long a document may take for each token that it may have, beside the time of its first one."""
P99: Final = QUANTILES.index(0.99)


class Bound(NamedTuple):
    """So many times the 99th percentile, and no less than `floor_s`: below that a busy network is
    no ill server."""

    times: float
    floor_s: float

    def of(self, usual_s: float, default_s: float) -> float:
        return min(default_s, max(self.floor_s, self.times * usual_s))


CONNECTION: Final[Mapping[Tier, Bound]] = MappingProxyType(
    {Tier.PRIORITY: Bound(3, 1.0), Tier.DEFAULT: Bound(6, 1.5), Tier.FLEX: Bound(12, 2.0)}
)
"""Of the first token of an empty prompt, which no connection may take longer than."""
FIRST_TOKEN: Final[Mapping[Tier, Bound]] = MappingProxyType(
    {Tier.PRIORITY: Bound(3, 2.0), Tier.DEFAULT: Bound(6, 6.0), Tier.FLEX: Bound(12, 12.0)}
)
"""Of the first token of a prompt of this size."""
SILENCE: Final[Mapping[Tier, Bound]] = MappingProxyType(
    {Tier.PRIORITY: Bound(50, 5.0), Tier.DEFAULT: Bound(100, 10.0), Tier.FLEX: Bound(200, 20.0)}
)
"""Of a token after the first: a mean over an answer, of which single ones may take much longer."""


def connection_bound_s(tier: Tier, state: PoolState | None, default_s: float) -> float:
    """Seconds for a connection to this pool."""
    if state is None or state.learned is None:
        return default_s
    return CONNECTION[tier].of(_first_token_s_most(state.learned, 0), default_s)


def first_token_bound_s(
    call: Call, state: PoolState | None, default_s: float, *, is_whole: bool = False
) -> float:
    """Seconds for the first token of this pool, where the call has another one to go to. Vectors
    have the default, and so has an answer in one piece (`is_whole`) where the tokens behind the
    first one may take longer than `DOCUMENT_TOKEN_S`."""
    if state is None or state.learned is None or call.task is not Task.GENERATE:
        return default_s
    if is_whole and not (state.learned.step_s_most or inf) <= DOCUMENT_TOKEN_S:
        return default_s
    prompt_tokens = call.likely_prompt_tokens(state.pool.model)
    usual_s = _first_token_s_most(state.learned, prompt_tokens)
    return FIRST_TOKEN[call.tier].of(usual_s, default_s)


def silence_bound_s(tier: Tier, state: PoolState | None, default_s: float) -> float:
    """Seconds between two tokens of an answer of this pool, where it can go on elsewhere as if it
    had never been cut."""
    if state is None or state.learned is None or state.learned.step_s_most is None:
        return default_s
    return SILENCE[tier].of(state.learned.step_s_most, default_s)


def has_another(state: PoolState) -> bool:
    """Whether an answer of one of its replicas has another one to go on at."""
    return sum(each.state is ReplicaState.WARM for each in state.replicas) > 1


def _first_token_s_most(speeds: Speeds, prompt_tokens: int) -> float:
    return first_token_s(speeds, prompt_tokens) * speeds.ttft_factors[P99]
