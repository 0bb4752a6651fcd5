"""The live fleet as the admin API shows it: what the controller published, and servers outside,
each with its breaker."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from gateway.catalog.fleet import FleetKeeper, PublishedPool
from gateway.health.breakers import Breakers, Scopes, replica_scope
from gateway.providers.key import ProviderKey
from routing.health.breaker import BreakerState
from routing.types import Pool, PoolHealth, PoolState

KeysOf = Callable[[Pool], Sequence[ProviderKey]]


def fleet_pools(fleet: FleetKeeper, breakers: Breakers, keys_of: KeysOf) -> list[dict[str, Any]]:
    """Pools of replicas in the order that they were published in, then servers outside."""
    published = [_with_replicas(each, breakers) for each in fleet.published]
    names = {each["name"] for each in published}
    outside = [
        _outside(state, breakers.health_outside(state.pool, names_of(keys_of(state.pool))))
        for state in fleet.snapshot().pools
        if state.pool.is_external and state.pool.name not in names
    ]
    return [*published, *outside]


def breaker_answer(breakers: Breakers, scopes: Scopes) -> dict[str, Any]:
    return health_answer(breakers.health(scopes))


def names_of(keys: Sequence[ProviderKey]) -> list[str]:
    return [key.name for key in keys]


def health_answer(health: PoolHealth | None) -> dict[str, Any]:
    if health is None:
        return {"state": BreakerState.CLOSED, "reason": None, "next_probe_at": None}
    until_us = None if health.until_s is None else round(health.until_s * 1e6)
    return {"state": health.state, "reason": health.reason, "next_probe_at": until_us}


def _with_replicas(pool: PublishedPool, breakers: Breakers) -> dict[str, Any]:
    return _fields(pool) | {"replicas": [*_replicas(pool, breakers)], "breaker": None}


def _replicas(pool: PublishedPool, breakers: Breakers) -> Iterator[dict[str, Any]]:
    for each in pool.replicas:
        yield _fields(each) | {"breaker": breaker_answer(breakers, (replica_scope(each.id),))}


def _outside(state: PoolState, health: PoolHealth | None) -> dict[str, Any]:
    """It has no replicas, and nobody decides how many there are."""
    pool = PublishedPool(name=state.pool.name, target=0, blocked=state.blocked_reason)
    return _fields(pool) | {"breaker": health_answer(health)}


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}
