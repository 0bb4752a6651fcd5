"""What canary and shadow chose: two sides of calls, and decisions that would have been others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from billing.queries import CanaryCall, CanaryRefusals
from billing.types import CallStatus
from gateway.decisions.record import DecisionRecord
from gateway.decisions.shadows import EXAMPLES_MAX, shadow_summaries
from gateway.decisions.sides import canary_outcomes
from routing.decide import decide
from routing.policy.action import DEFAULT_RULE, Action, Sort, Target, TargetKind
from routing.policy.rules import SHARES, Canary, RoutingPolicy, Rule
from routing.types import Call, Decision, FleetSnapshot
from tests.gateway.decisions.records import attributes_of, busy_fleet
from tests.gateway.decisions.test_replay import made
from tests.routing.fleets import any_call, any_fleet, call

SECOND_US = 1_000_000
CALLS = st.lists(
    st.builds(
        CanaryCall,
        rule=st.sampled_from(["night", "day", "gone"]),
        is_canary=st.booleans(),
        status=st.sampled_from(CallStatus),
        admitted_us=st.integers(0, 99),
        first_token_us=st.none() | st.integers(100, 10**9),
        ended_us=st.integers(10**9, 10**10),
        amount_nanousd=st.integers(0, 10**9),
        cost_nanousd=st.integers(0, 10**9),
    ),
    max_size=30,
)
REFUSALS = st.lists(
    st.builds(
        CanaryRefusals,
        rule=st.sampled_from(["night", "day", "gone"]),
        is_canary=st.booleans(),
        calls=st.integers(1, 99),
    ),
    unique_by=lambda each: (each.rule, each.is_canary),
)


def rule(name: str, *, canary: int | None = None, shadow: Action | None = None) -> Rule:
    share = None if canary is None else Canary(Action(), canary, "salt")
    return Rule(name, (), Action(), share, shadow)


def only(pool: str) -> Action:
    return Action(only=frozenset({Target(TargetKind.POOL, pool)}))


TWO = RoutingPolicy(7, (rule("night", canary=SHARES // 20), rule("day")), rule(DEFAULT_RULE))


@given(CALLS, REFUSALS)
def test_every_call_of_a_rule_with_a_canary_is_on_one_side(
    calls: list[CanaryCall], refusals: list[CanaryRefusals]
) -> None:
    (night,) = canary_outcomes(TWO, calls, refusals)
    assert (night.rule, night.share) == ("night", 0.05)
    for side, is_canary in ((night.canary, True), (night.stable, False)):
        mine = [each for each in calls if (each.rule, each.is_canary) == ("night", is_canary)]
        refused = sum(r.calls for r in refusals if (r.rule, r.is_canary) == ("night", is_canary))
        assert side.calls == len(mine) + refused
        assert side.calls == side.answered + side.failed + side.cancelled + side.refused
        assert (side.price_nanousd is None) == (not mine)
        if side.ttft_s_p50 is not None and side.ttft_s_p95 is not None:
            assert side.ttft_s_p50 <= side.ttft_s_p95


def test_side_has_outcomes_times_and_means() -> None:
    def of(first_us: int | None, status: CallStatus, nanousd: int) -> CanaryCall:
        return CanaryCall("night", True, status, 0, first_us, 9 * SECOND_US, nanousd, 2 * nanousd)

    calls = [
        of(SECOND_US, CallStatus.ANSWERED, 30),
        of(3 * SECOND_US, CallStatus.ANSWERED, 50),
        of(None, CallStatus.FAILED, 10),
    ]
    (night,) = canary_outcomes(TWO, calls, [CanaryRefusals("night", False, 4)])
    side = night.canary
    assert (side.calls, side.answered, side.failed, side.refused) == (3, 2, 1, 0)
    assert (side.ttft_s_p50, side.ttft_s_p95) == (1.0, 3.0)
    assert (side.price_nanousd, side.cogs_nanousd) == (30, 60)
    assert (night.stable.calls, night.stable.refused, night.stable.price_nanousd) == (4, 4, None)


@given(st.lists(st.tuples(any_call(), any_fleet(), st.integers(0, 9)), max_size=5))
def test_shadow_differs_where_deciding_by_it_alone_does(
    several: list[tuple[Call, FleetSnapshot, int]],
) -> None:
    shadow = Action(sort=Sort.LATENCY)
    policy = RoutingPolicy(3, (), rule(DEFAULT_RULE, shadow=shadow))
    by_shadow = RoutingPolicy(3, (), Rule(DEFAULT_RULE, (), shadow))
    records = [recorded(*each, policy) for each in several]
    (summary,) = shadow_summaries(policy, records, lambda *_: 0)
    differ = decisions = 0
    for each in several:
        real, other = decided(*each, policy), decided(*each, by_shadow)
        if isinstance(real, Decision):
            decisions += 1
            differ += not isinstance(other, Decision) or (
                (real.chosen.pool, real.chosen.model) != (other.chosen.pool, other.chosen.model)
            )
    assert (summary.decisions, summary.differ) == (decisions, differ)
    assert len(summary.examples) == min(differ, EXAMPLES_MAX)


def test_examples_name_both_places_and_what_they_would_cost() -> None:
    policy = RoutingPolicy(3, (), rule(DEFAULT_RULE, shadow=only("pool-2")))
    first, second = [
        recorded(call(request_id=name), busy_fleet(3, 0), 1, policy) for name in ("req_1", "req_2")
    ]
    (summary,) = shadow_summaries(policy, [first, second], lambda _, model: len(model))
    assert (summary.rule, summary.decisions, summary.differ) == (DEFAULT_RULE, 2, 2)
    example = summary.examples[0]
    assert (example.rid, example.refusal, example.price_nanousd) == ("req_1", None, 0)
    assert example.shadow is not None and example.shadow.pool == "pool-2" != example.chosen.pool
    assert example.cogs_nanousd == example.shadow.cost_nanousd - example.chosen.cost_nanousd
    assert summary.cogs_nanousd == 2 * example.cogs_nanousd


def test_shadow_that_leaves_no_pool_refuses() -> None:
    policy = RoutingPolicy(3, (), rule(DEFAULT_RULE, shadow=only("gone")))
    one = recorded(call(), busy_fleet(3, 0), 1, policy)
    (summary,) = shadow_summaries(policy, [one], lambda *_: 1)
    assert (summary.differ, summary.refused, summary.price_nanousd) == (1, 1, 0)
    assert summary.examples[0].shadow is None
    assert "leaves no pool" in (summary.examples[0].refusal or "")


def test_records_of_other_versions_and_rules_without_a_shadow_count_for_nothing() -> None:
    policy = RoutingPolicy(3, (), rule(DEFAULT_RULE, shadow=only("pool-2")))
    other = RoutingPolicy(2, (), rule(DEFAULT_RULE, shadow=only("pool-2")))
    (summary,) = shadow_summaries(
        policy, [recorded(call(), busy_fleet(3, 0), 1, other)], lambda *_: 1
    )
    assert summary.decisions == 0
    plain = RoutingPolicy(3, (), rule(DEFAULT_RULE))
    assert shadow_summaries(plain, [recorded(call(), busy_fleet(3, 0), 1, plain)], print) == []


def recorded(call: Call, fleet: FleetSnapshot, seed: int, policy: RoutingPolicy) -> DecisionRecord:
    return made(call, fleet, seed, policy).record()


def decided(call: Call, fleet: FleetSnapshot, seed: int, policy: RoutingPolicy) -> object:
    return decide(call, fleet, policy.match(attributes_of(call)), seed)
