"""`decide`: which pools a call should try, in which order, and why.

Pure: a call, a fleet snapshot, what a policy says of the call and a seed give a Decision or a
Refusal. Filter, score, pick. Guards law 5 (same inputs, same decision, in every process) and the
rule that every candidate has a reason.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from routing.candidates import Candidates, Reading, Row, RuledOut
from routing.cost import ANSWER_S_MIN, expected_output_tokens
from routing.filters import (
    NO_FALLBACK,
    Ruling,
    cools_down,
    slow_start,
    takes_fields,
    takes_model,
    too_late,
    too_long,
)
from routing.health.breaker import BreakerState
from routing.plans import Plan, Plans, Weights
from routing.policy.action import Action, Matched, Sort
from routing.types import (
    AUTO_MODEL,
    Call,
    Decision,
    FleetSnapshot,
    PoolHealth,
    Refusal,
    RefusalKind,
)

COOLING: Final = BreakerState.COOLING
CAPACITY_RETRY_S = 5.0
BEHIND: Final = 1 << 20
"""The shelf of pools that a rule wants behind all others; above every place in an order."""
FALLBACK: Final = 1 << 24
"""The shelf of another model, behind whatever the one that was asked for has."""
CAUSES_MAX = 3
MIX, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
"""Of Fibonacci hashing (Knuth 6.4): a seed and the number of a pool give a rank among equals."""


def decide(
    call: Call, snapshot: FleetSnapshot, matched: Matched, seed: int, plans: Plans | None = None
) -> Decision | Refusal:
    """Weigh every pool of the call's models. The best comes first, as the rule says.

    Ties are broken by the seed, so that equal pools share the load. `plans` keep what repeats.
    """
    plans = plans or Plans()
    decision = _decided(call, snapshot, matched, seed, plans)
    if matched.shadow is None or isinstance(decision, Refusal):
        return decision
    other = matched._replace(action=matched.shadow, shadow=None)
    return decision._replace(shadow=_decided(call, snapshot, other, seed, plans))


def _decided(
    call: Call, snapshot: FleetSnapshot, matched: Matched, seed: int, plans: Plans
) -> Decision | Refusal:
    weighed = weigh(call, snapshot, matched.action, seed, plans)
    rows, ruled_out = weighed.rows, weighed.ruled_out
    if not rows:
        return _refusal(call, matched, seed, weighed)
    if not matched.action.allow_fallbacks:
        ruled_out = [*(RuledOut(row.weights, NO_FALLBACK) for row in rows[1:]), *ruled_out]
        rows = rows[:1]
    return Decision(matched, seed, Candidates(weighed.reading, [*rows, *ruled_out]))


class Weighed(NamedTuple):
    """`rows` are the eligible pools, best first."""

    reading: Reading
    rows: list[Row]
    ruled_out: list[RuledOut]


def weigh(call: Call, snapshot: FleetSnapshot, action: Action, seed: int, plans: Plans) -> Weighed:
    """Every pool of the call's models, in the order of the action's wishes."""
    plan = plans.plan(action, call.leave, snapshot.models)
    reading = Reading(
        call.tier,
        {model: call.likely_prompt_tokens(model) for model in call.models},
        {model: call.context_needed(model) for model in call.models},
        expected_output_tokens(call),
        snapshot.at_s,
        snapshot.in_flight,
        call.quality_deviations or {},
        call.prefix_tokens,
    )
    rows, ruled_out = _rows(call, snapshot, plan, seed, reading)
    rows.sort()
    return Weighed(reading, rows, ruled_out)


def _rows(
    call: Call, snapshot: FleetSnapshot, plan: Plan, seed: int, reading: Reading
) -> tuple[list[Row], list[RuledOut]]:
    """Filter and score."""
    rows: list[Row] = []
    ruled_out: list[RuledOut] = []
    models, weighed = snapshot.models, plan.known
    prompts = reading.prompt_tokens
    behind = _fallback_shelves(call, plan.action)
    left_s, sort, start_s_max = call.deadline_s - snapshot.at_s, plan.action.sort, plan.start_s_max
    for state in snapshot.pools:
        pool = state.pool
        model = pool.model
        if model not in prompts:
            continue
        weights = weighed.get(pool.name)
        if weights is None or weights.state is not state:
            weights = plan.learn(state, models[model])
        begins_s, wait_s, first_s = times = reading.times(weights)
        ruling = _ruling(call, weights, plan, reading, times, left_s)
        if ruling is not None:
            ruled_out.append(RuledOut(weights, ruling))
            continue
        score = measure = reading.score_nanousd(weights, wait_s)
        if sort is not None:
            measure = _measure(sort, weights, reading, wait_s, first_s)
        shelf = weights.rank
        if begins_s > start_s_max or (
            weights.latency_bounds and _is_slow(weights, wait_s, first_s)
        ):
            shelf += BEHIND
        tie = (weights.terms.number ^ seed) * MIX & MASK
        if weights.health is not None and _comes_behind(weights.health, tie):
            shelf += BEHIND
        if behind:
            shelf += behind.get(model, 0)
        rows.append(Row(shelf, measure, score, tie, weights, wait_s))
    return rows, ruled_out


def _ruling(
    call: Call,
    weights: Weights,
    plan: Plan,
    reading: Reading,
    times: tuple[float, float, float],
    left_s: float,
) -> Ruling | None:
    """The first reason against a pool. What time does not cure comes before what it does."""
    if weights.against is not None:
        return weights.against
    if len(call.models) > 1 and (ruling := takes_model(call, weights.model, plan.action)):
        return ruling
    if call.extra_fields and (ruling := takes_fields(call, weights.state.pool)):
        return ruling
    needed = reading.context_tokens[weights.model]
    if needed > weights.window:
        return too_long(needed, weights.window)
    if weights.stopped is not None:
        return weights.stopped
    begins_s, wait_s, first_s = times
    soonest_s = weights.terms.soonest_factor * first_s
    if wait_s + (soonest_s if soonest_s > ANSWER_S_MIN else ANSWER_S_MIN) >= left_s:
        return too_late(wait_s, left_s)
    health = weights.health
    if health is not None and health.state is COOLING and health.until_s is not None:
        cooling_s = health.until_s - reading.at_s
        most_s = plan.action.retries.retry_after_s_max
        if cooling_s > most_s and weights.state.pool.is_external:
            return cools_down(cooling_s, most_s)
    if plan.refuses_slow_starts and begins_s > plan.start_s_max:
        return slow_start(begins_s, plan.start_s_max)
    return None


def _fallback_shelves(call: Call, action: Action) -> dict[str, int]:
    """Of each model but the one that the call names: behind it, in the order of the policy."""
    if len(call.models) < 2 or call.model_requested == AUTO_MODEL:
        return {}
    models = action.cheaper_models if call.uncovered else action.fallback_models
    return {model: FALLBACK * at for at, model in enumerate(models, 1)}


def _comes_behind(health: PoolHealth, chance: int) -> bool:
    """A pool that cools down or whose replicas all fail, behind those that do not; and one that was
    ill, for all but its share of the calls. `chance` is in 0..MASK."""
    return health.is_left_alone or chance > health.share * MASK


def _is_slow(weights: Weights, wait_s: float, first_s: float) -> bool:
    return any(wait_s + factor * first_s > most_s for factor, most_s in weights.latency_bounds)


def _measure(sort: Sort, row: Weights, reading: Reading, wait_s: float, first_s: float) -> float:
    if sort is Sort.LATENCY:
        return wait_s + first_s
    if sort is Sort.THROUGHPUT:
        return row.terms.step_s
    amounts = reading.amounts_nanousd(row, wait_s)
    return amounts["run"] + amounts["start"] + amounts["risk"]


def _refusal(call: Call, matched: Matched, seed: int, weighed: Weighed) -> Refusal:
    """Nothing is left. A reason that time may cure comes first; `retry_after_s` is when the soonest
    such pool can begin."""
    reading, ruled_out = weighed.reading, weighed.ruled_out
    kinds = {each.ruling.kind for each in ruled_out}
    kind = next((k for k in RefusalKind if k in kinds), RefusalKind.NO_POOL)
    causes = [each for each in ruled_out if each.ruling.kind is kind]
    waits = [(_wait_s(reading, each.weights), each.weights.name) for each in causes]
    soonest_s, soonest = min(waits, default=(CAPACITY_RETRY_S, None))
    return Refusal(
        kind=kind,
        message=f"{call.model_requested}: {_causes(kind, matched, causes)}",
        retry_after_s=None if kind.is_incurable else max(1.0, soonest_s),
        candidates=Candidates(reading, ruled_out),
        soonest_pool=soonest if kind is RefusalKind.DEADLINE else None,
        matched=matched,
        seed=seed,
    )


def _wait_s(reading: Reading, weights: Weights) -> float:
    """Until the pool begins, or may be asked again."""
    wait_s, health = reading.times(weights)[1], weights.health
    if health is None or health.until_s is None:
        return wait_s
    return max(wait_s, health.until_s - reading.at_s)


def _causes(kind: RefusalKind, matched: Matched, causes: Sequence[RuledOut]) -> str:
    """What would have been needed; of a rule that leaves no pool, by pool."""
    if not causes:
        return "no pool serves this model"
    if kind is not RefusalKind.POLICY:
        return causes[0].ruling.reason
    texts = [f"{each.weights.name}: {each.ruling.reason}" for each in causes]
    more = [f"and {len(texts) - CAUSES_MAX} more"] if len(texts) > CAUSES_MAX else []
    who = f"the rule '{matched.rule}' leaves"
    if matched.is_narrowed:
        who = f"the rule '{matched.rule}' and the call's 'provider' leave"
    return f"{who} no pool ({'; '.join([*texts[:CAUSES_MAX], *more])})"
