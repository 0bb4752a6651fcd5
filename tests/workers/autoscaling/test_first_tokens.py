"""The laws of targets by tier: a stricter one never means fewer replicas, and a patient call brings
no more of them than the same call of a tier in a hurry."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.autoscaling.test_demand import LIFE, PACES
from tests.workers.autoscaling.test_laws import knobs, replicas
from workers.autoscaling.demand import Demand, Pace, Terms, TierQueue
from workers.autoscaling.need import least_needed, terms_of
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, ReplicaView

PATIENT, HASTY = "flex", "priority"
TIERS = (HASTY, "default", PATIENT)
QUEUES = st.lists(
    st.builds(TierQueue, st.sampled_from(TIERS), st.integers(1, 60), st.integers(0, 20_000)),
    max_size=4,
).map(tuple)
TARGETS_MS = st.integers(0, 60_000)
FAST = Pace(tokens_per_s=1_000, tokens_per_call=500)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[PoolView, PoolMemory, Knobs]:
    """A pool with callers of any tiers, before it and at its replicas."""
    at_replicas = draw(QUEUES)
    seen = tuple(
        replace(each, queued=sum(q.callers for q in at_replicas), queues=at_replicas)
        for each in draw(replicas())
    )
    queues = draw(QUEUES)
    waiting = sum(each.callers for each in queues)
    demand = Demand(queues=queues, pace=draw(PACES))
    targets = tuple((tier, draw(TARGETS_MS)) for tier in TIERS)
    limits = replace(draw(knobs()), max_replicas=50, tier_ttft_ms=targets)
    memory = PoolMemory(target=draw(st.integers(0, 5)), cold_start_ms=draw(st.integers(1, 20_000)))
    return PoolView(8_000, seen, waiting, demand=demand), memory, limits


def needs(view: PoolView, memory: PoolMemory, limits: Knobs) -> tuple[int, int, int]:
    """To go up, to stay, and what is decided."""
    terms, (_, decision) = terms_of(view, memory, limits), decide(view, memory, limits)
    return terms.for_first_token, least_needed(view, memory, limits), decision.target


def none_fewer(less: tuple[int, int, int], more: tuple[int, int, int]) -> None:
    assert all(before <= after for before, after in zip(less, more, strict=True)), (less, more)


@settings(max_examples=200, deadline=None)
@given(world=worlds(), tier=st.sampled_from(TIERS), by_ms=st.integers(1, 60_000))
def test_stricter_target_never_means_fewer_replicas(
    world: tuple[PoolView, PoolMemory, Knobs], tier: str, by_ms: int
) -> None:
    view, memory, limits = world
    stricter = {**dict(limits.tier_ttft_ms), tier: max(0, limits.ttft_ms_of(tier) - by_ms)}
    none_fewer(
        needs(view, memory, limits),
        needs(view, memory, replace(limits, tier_ttft_ms=tuple(stricter.items()))),
    )


@settings(max_examples=200, deadline=None)
@given(
    world=worlds(),
    tier=st.sampled_from(TIERS),
    callers=st.integers(1, 40),
    waited_ms=st.integers(0, 20_000),
)
def test_more_callers_of_any_tier_never_mean_fewer_replicas(
    world: tuple[PoolView, PoolMemory, Knobs], tier: str, callers: int, waited_ms: int
) -> None:
    view, memory, limits = world
    queues = (*view.demand.queues, TierQueue(tier, callers, waited_ms))
    busier = replace(
        view, waiting=view.waiting + callers, demand=replace(view.demand, queues=queues)
    )
    none_fewer(needs(view, memory, limits), needs(busier, memory, limits))


@settings(max_examples=200, deadline=None)
@given(world=worlds(), callers=st.integers(1, 40), patience_ms=st.integers(0, 60_000))
def test_patient_call_alone_never_brings_more_replicas_than_the_same_call_in_a_hurry(
    world: tuple[PoolView, PoolMemory, Knobs], callers: int, patience_ms: int
) -> None:
    view, memory, limits = world
    targets = {**dict(limits.tier_ttft_ms), PATIENT: limits.ttft_ms_of(HASTY) + patience_ms}
    limits = replace(limits, tier_ttft_ms=tuple(targets.items()))
    view = replace(view, replicas=tuple(replace(each, queued=0) for each in view.replicas))

    def alone(tier: str) -> tuple[int, int, int]:
        demand = replace(view.demand, queues=(TierQueue(tier, callers),))
        return needs(replace(view, waiting=callers, demand=demand), memory, limits)

    none_fewer(alone(PATIENT), alone(HASTY))


@settings(max_examples=200, deadline=None)
@given(world=worlds())
def test_the_largest_count_that_any_tier_needs_is_needed(
    world: tuple[PoolView, PoolMemory, Knobs],
) -> None:
    terms = terms_of(*world)
    for each in terms.tiers:
        assert each.needed <= terms.for_first_token
        if each.tier == terms.tier:
            assert each.ttft_s == terms.ttft_s
            assert each.needed == max(need.needed for need in terms.tiers)


def asked(*queues: TierQueue) -> Terms:
    """Of a pool whose replicas start in 2 s: flex may wait for a minute, others for a second."""
    limits = replace(LIFE, tier_ttft_ms=((HASTY, 1_000), (PATIENT, 60_000)))
    memory = PoolMemory(target=0, cold_start_ms=2_000)
    waiting = sum(each.callers for each in queues)
    view = PoolView(0, (), waiting, demand=Demand(queues=queues, pace=FAST))
    return terms_of(view, memory, limits)


def test_flex_calls_need_few_replicas_and_those_of_priority_many() -> None:
    flex, priority = asked(TierQueue(PATIENT, 80)), asked(TierQueue(HASTY, 80))
    assert (flex.for_first_token, flex.tier, flex.ttft_s) == (1, PATIENT, 60.0)
    assert (priority.for_first_token, priority.tier, priority.ttft_s) == (10, HASTY, 1.0)


def test_priority_call_behind_flex_calls_rules() -> None:
    """Queues know no tier, so it may be the last one that is begun."""
    terms = asked(TierQueue(PATIENT, 79), TierQueue(HASTY, 1))
    assert (terms.for_first_token, terms.tier) == (10, HASTY)
    assert [(each.tier, each.waiting, each.needed) for each in terms.tiers] == [
        (HASTY, 1, 10),
        (PATIENT, 79, 1),
    ]


def test_time_that_a_call_waited_at_a_replica_is_taken_from_its_target() -> None:
    limits = replace(LIFE, tier_ttft_ms=((PATIENT, 60_000),))
    memory = PoolMemory(target=1, cold_start_ms=2_000)

    def needed(waited_ms: int) -> int:
        queue = (TierQueue(PATIENT, 80, waited_ms),)
        replica = ReplicaView("a", Phase.WARM, 0, running=8, queued=80, queues=queue)
        view = PoolView(0, (replica,), 0, demand=Demand(pace=FAST))
        return terms_of(view, memory, limits).for_first_token

    assert needed(0) == 1
    assert 1 < needed(50_000) < needed(60_000)
    assert needed(60_000) == needed(90_000)


def test_callers_whose_tier_nobody_says_are_of_the_default_one() -> None:
    replica = ReplicaView("a", Phase.WARM, 0, running=8, queued=3)
    terms = terms_of(PoolView(0, (replica,), 2), PoolMemory(target=1, cold_start_ms=1_000), LIFE)
    assert [(each.tier, each.waiting) for each in terms.tiers] == [("default", 5)]
