"""Why a pool cannot take a call: each filter gives a ruling, or None to let the call pass.

A ruling is a pattern with values: its text is made when somebody reads it. What an entitlement and
a rule say of a pool holds for every call (`standing_ruling`), the rest depends on the call.
"""

from collections.abc import Callable
from typing import NamedTuple

from routing.health.breaker import BreakerState
from routing.health.failures import OF_THE_SETTING_UP
from routing.policy.action import Action, OnExceed, Target, TargetKind
from routing.types import Call, Leave, Pool, PoolState, RefusalKind, ReplicaState

NOT_SET_UP = "not set up: "
"""What stands behind it is the operator's alone."""


class Ruling(NamedTuple):
    kind: RefusalKind
    pattern: str
    values: tuple[object, ...] = ()

    @property
    def reason(self) -> str:
        return self.pattern.format(*self.values)


def _policy(pattern: str, *values: object) -> Ruling:
    return Ruling(RefusalKind.POLICY, pattern, values)


NO_FALLBACK = _policy("the route allows no fallback")
NOT_COVERED = _policy("what is left of its budget or credit does not cover this model")


def standing_ruling(pool: Pool, action: Action, leave: Leave) -> Ruling | None:
    """What is against a pool whatever the call: first what its caller may not use, which no rule
    can widen, then what the rule does not take."""
    for check in ENTITLEMENT_FILTERS:
        if (first := check(pool, leave)) is not None:
            return first
    for demand in POLICY_FILTERS:
        if (first := demand(pool, action)) is not None:
            return first
    return None


def is_allowed(pool: Pool, leave: Leave) -> Ruling | None:
    allowed = leave.capacity_classes
    if allowed is None or pool.capacity_class in allowed:
        return None
    capacity_class = pool.capacity_class.value
    return Ruling(RefusalKind.FORBIDDEN, "the key may not use {} capacity", (capacity_class,))


def is_in_region(pool: Pool, leave: Leave) -> Ruling | None:
    if leave.regions is None or pool.region in leave.regions:
        return None
    where = _where(pool)
    return Ruling(RefusalKind.OTHER_REGION, "the pool is {}, which the key may not use", (where,))


def _where(pool: Pool) -> str:
    return "in no region" if pool.region is None else f"in {pool.region}"


def is_entitled(pool: Pool, leave: Leave) -> Ruling | None:
    if leave.pools is None or pool.name in leave.pools:
        return None
    return Ruling(RefusalKind.OTHER_POOL, "the pool is {}, which the key may not use", (pool.name,))


def keeps_data_private(pool: Pool, leave: Leave) -> Ruling | None:
    if leave.data_collection_allowed or not pool.collects_data:
        return None
    reason = "prompts may be kept or trained on there, which the key does not allow"
    return Ruling(RefusalKind.DATA_COLLECTION, reason)


ENTITLEMENT_FILTERS: tuple[Callable[[Pool, Leave], Ruling | None], ...] = (
    is_allowed,
    is_in_region,
    is_entitled,
    keeps_data_private,
)

# ---- What a rule demands of a pool


def is_named(pool: Pool, action: Action) -> Ruling | None:
    targets = targets_of(pool)
    if action.only is not None and action.only.isdisjoint(targets):
        return _policy("the route takes other pools only")
    if not action.ignore.isdisjoint(targets):
        return _policy("the route leaves this pool out")
    return None


def targets_of(pool: Pool) -> tuple[Target, ...]:
    own = Target(TargetKind.POOL, pool.name)
    return (own, Target(TargetKind.PROVIDER, pool.provider)) if pool.provider else (own,)


def takes_region(pool: Pool, action: Action) -> Ruling | None:
    if action.regions is None or pool.region in action.regions:
        return None
    return _policy("the pool is {}, and the route takes other regions only", _where(pool))


def takes_weights(pool: Pool, action: Action) -> Ruling | None:
    if action.quantizations is None or pool.quantization in action.quantizations:
        return None
    return _policy("the weights are {}, and the route takes others only", pool.quantization)


def keeps_nothing(pool: Pool, action: Action) -> Ruling | None:
    if action.data_collection_allowed or not pool.collects_data:
        return None
    return _policy("prompts may be kept or trained on there, which the route does not allow")


def is_validated(pool: Pool, action: Action) -> Ruling | None:
    least = action.quality_min
    if least is None:
        return None
    use_case = action.use_case or "any use case"
    quality = validated_quality(pool, action)
    if quality is None:
        return _policy("the variant was not validated for {}", use_case)
    if quality < least:
        return _policy(
            "its quality for {} is {:g}, at least {:g} is needed", use_case, quality, least
        )
    return None


def validated_quality(pool: Pool, action: Action) -> float | None:
    """Of the pool's variant for the use case; where the rule names none, its worst. None: it was
    not validated."""
    if action.use_case is not None:
        validation = pool.validation(action.use_case)
        return None if validation is None else validation.score
    measured = () if pool.declared is None else pool.declared.quality.values()
    return min((each.score for each in measured), default=None)


POLICY_FILTERS: tuple[Callable[[Pool, Action], Ruling | None], ...] = (
    is_named,
    takes_region,
    takes_weights,
    keeps_nothing,
    is_validated,
)


def is_affordable(action: Action, prompt_nanousd: float, output_nanousd: float) -> Ruling | None:
    """What a token costs us at the pool. The reason is the tenant's too, so it has no figure."""
    for bound, cost in (
        (action.max_price.input_nanousd_per_mtok, prompt_nanousd),
        (action.max_price.output_nanousd_per_mtok, output_nanousd),
    ):
        if bound is not None and cost * 1e6 > bound:
            return _policy("it is dearer than the route allows")
    return None


# ---- What depends on the state of the pool, and on the call


def may_run(state: PoolState) -> Ruling | None:
    blocked = state.blocked_reason
    if state.pool.is_external:
        if blocked is None:
            return is_left_alone(state)
        return Ruling(RefusalKind.MISCONFIGURED, NOT_SET_UP + "{}", (blocked,))
    if any(r.state is ReplicaState.WARM for r in state.replicas):
        return None
    if state.pool.max_replicas < 1:
        return Ruling(RefusalKind.CAPACITY, "the pool may have no replicas")
    return Ruling(RefusalKind.CAPACITY, "{}", (blocked,)) if blocked else None


def is_left_alone(state: PoolState) -> Ruling | None:
    """By an open breaker. Why its server refuses us is the operator's alone."""
    health = state.health
    if health is None or health.state is not BreakerState.OPEN:
        return None
    if health.reason in OF_THE_SETTING_UP:
        return Ruling(
            RefusalKind.MISCONFIGURED, NOT_SET_UP + "its server says {}", (health.reason,)
        )
    return Ruling(RefusalKind.CAPACITY, "it has failed lately, and is left alone for a moment")


def cools_down(wait_s: float, most_s: float) -> Ruling:
    pattern = "its server wants no call for {:.0f} s, the route waits {:g} s at most"
    return Ruling(RefusalKind.CAPACITY, pattern, (wait_s, most_s))


def takes_fields(call: Call, pool: Pool) -> Ruling | None:
    unknown = call.extra_fields.difference(pool.extra_fields)
    if not unknown:
        return None
    first = sorted(unknown)[0]
    return Ruling(RefusalKind.NO_POOL, "the pool does not take the field '{}'", (first,))


def takes_model(call: Call, model: str, action: Action) -> Ruling | None:
    """Of a call with several. A model that the policy names for calls that are too long takes no
    other one."""
    if call.uncovered:
        return None if model not in call.uncovered else NOT_COVERED
    fallbacks, requested = action.fallbacks, call.model_requested
    if model == requested or requested not in call.models or model in fallbacks.general:
        return None
    if model not in fallbacks.context_window:
        return None
    return _policy("the route takes it for calls that are too long for {}", requested)


def too_long(needed: int, window: int) -> Ruling:
    pattern = "the call needs {} tokens of context, the window has {}"
    return Ruling(RefusalKind.CONTEXT_LENGTH, pattern, (needed, window))


def too_late(wait_s: float, left_s: float) -> Ruling:
    pattern = "ready in about {:.1f} s, the deadline is in {:.1f} s"
    return Ruling(RefusalKind.DEADLINE, pattern, (wait_s, left_s))


def slow_start(wait_s: float, most_s: float) -> Ruling:
    pattern = "ready in about {:.1f} s, the rule waits {:g} s at most"
    return Ruling(RefusalKind.DEADLINE, pattern, (wait_s, most_s))


def refuses_slow_starts(action: Action) -> bool:
    start = action.cold_start
    return start is not None and start.on_exceed is OnExceed.REFUSE
