"""When a call that found no place may come again: from what the fleet says and what was just tried.

Pure, and asked for only where a call is refused or its deadline has passed: whoever is served costs
nothing here.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gateway.catalog.fleet import outside_id
from routing.cost import wait_s
from routing.types import Call, PoolState, ReplicaState

AGAIN_S_MIN, AGAIN_S_MAX = 0.25, 3600.0
"""The longest is also that of a `retry-after` of an upstream that is passed on to a caller."""
NOBODY_KNOWS_S = 5.0
"""Where no pool is left to the call, or none may be started: the controller says why it backs off
from failed starts, and not for how long. It is about what its first pause takes."""


def again_s(
    call: Call,
    states: Iterable[PoolState | None],
    avoided: Mapping[str, float],
    now_s: float,
    in_flight: Mapping[str, int] = MappingProxyType({}),
) -> float:
    """Seconds until the first of these pools can take the call.

    It has a replica with room for one more by then, and what was tried in vain is asked again:
    `avoided` says when, by the id of a place. `in_flight` counts open attempts by pool.
    """
    present = [state for state in states if state is not None]
    waits = [
        max(
            wait_s(state, call, now_s, in_flight.get(state.pool.name, 0)),
            _paused_s(state, avoided, now_s),
        )
        for state in present
        if not is_blocked(state)
    ]
    return min(max(min(waits, default=NOBODY_KNOWS_S), AGAIN_S_MIN), AGAIN_S_MAX)


def is_blocked(state: PoolState | None) -> bool:
    """Whether a pool neither has a replica nor gets one for now."""
    return state is None or (state.blocked_reason is not None and not state.replicas)


def _paused_s(state: PoolState, avoided: Mapping[str, float], now_s: float) -> float:
    return min((avoided.get(place, 0.0) - now_s for place in _places(state)), default=0.0)


def _places(state: PoolState) -> list[str]:
    if state.pool.is_external:
        return [outside_id(state.pool.name)]
    return [each.id for each in state.replicas if each.state is ReplicaState.WARM]
