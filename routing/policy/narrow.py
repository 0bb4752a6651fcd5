"""What a caller asks of routing, applied to what the operator allows: it only narrows.

Pure. Guards the law that a pool which the narrowed action takes is one that the action took before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from routing.policy.action import (
    Action,
    LatencyPreference,
    Matched,
    Sort,
    Target,
    TargetKind,
)


@dataclass(frozen=True, slots=True)
class Preferences:
    """The `provider` object of a call, in OpenRouter's words. Empty, it changes nothing. Its
    `max_price` is what the tenant pays, and bounds the quote and not the action."""

    only: frozenset[Target] | None = None
    order: tuple[Target, ...] = ()
    ignore: frozenset[Target] = frozenset()
    sort: Sort | None = None
    preferred_max_latency: LatencyPreference | None = None
    allow_fallbacks: bool = True
    quantizations: frozenset[str] | None = None
    data_collection_allowed: bool = True


NO_WISH: Final = Preferences()


def narrowed(matched: Matched, wish: Preferences, provider_of: Mapping[str, str]) -> Matched:
    """The caller's own wishes narrow the rule's action; its shadow stays as it is."""
    if wish == NO_WISH:
        return matched
    return matched._replace(action=narrow(matched.action, wish, provider_of), is_narrowed=True)


def narrow(action: Action, wish: Preferences, provider_of: Mapping[str, str]) -> Action:
    """`provider_of` names the provider of each pool that has one. What the caller puts first stands
    before what the operator puts first."""
    return replace(
        action,
        only=_both(action.only, wish.only, provider_of),
        order=tuple(dict.fromkeys((*wish.order, *action.order))),
        ignore=action.ignore | wish.ignore,
        sort=wish.sort or action.sort,
        preferred_max_latency=wish.preferred_max_latency or action.preferred_max_latency,
        allow_fallbacks=action.allow_fallbacks and wish.allow_fallbacks,
        quantizations=_common(action.quantizations, wish.quantizations),
        data_collection_allowed=action.data_collection_allowed and wish.data_collection_allowed,
    )


def target(text: str) -> Target:
    """`pool:NAME` or `provider:NAME`; a name without a prefix is a pool's. Raises ValueError."""
    kind, colon, name = text.partition(":")
    if not colon:
        kind, name = TargetKind.POOL, text
    if not name or kind not in (TargetKind.POOL, TargetKind.PROVIDER):
        raise ValueError(f"'{text}' is neither pool:NAME nor provider:NAME")
    return Target(TargetKind(kind), name)


def _both(
    one: frozenset[Target] | None, other: frozenset[Target] | None, provider_of: Mapping[str, str]
) -> frozenset[Target] | None:
    """Targets whose pools lie in both sets; a pool is in its provider."""
    if one is None or other is None:
        return one if other is None else other
    inside = {t for t in one if _provider(t, provider_of) in other}
    return (one & other) | inside | {t for t in other if _provider(t, provider_of) in one}


def _provider(pool: Target, provider_of: Mapping[str, str]) -> Target | None:
    name = provider_of.get(pool.name) if pool.kind is TargetKind.POOL else None
    return None if name is None else Target(TargetKind.PROVIDER, name)


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return one if other is None else other
    return one & other
