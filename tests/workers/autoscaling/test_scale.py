"""Examples of scaling, told as a pool's life second by second."""

from dataclasses import replace

from workers.autoscaling.demand import Demand
from workers.autoscaling.scale import decide
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ReplicaView,
    ScaleDecision,
)

KNOBS = Knobs(
    min_replicas=0,
    max_replicas=3,
    slots=4,
    idle_ms=10_000,
    up_delay_ms=2_000,
    settle_ms=600,
    drain_timeout_ms=5_000,
    start_timeout_ms=60_000,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
)


class Pool:
    """A pool under test: its memory, its knobs and a clock that the test moves."""

    def __init__(self, target: int = 0, knobs: Knobs = KNOBS) -> None:
        self.knobs = knobs
        self.memory = PoolMemory(target=target, cold_start_ms=5_000)
        self.at_ms = 1_000_000

    def sees(
        self, *replicas: ReplicaView, waiting: int = 0, after_ms: int = 100, **rest: object
    ) -> ScaleDecision:
        self.at_ms += after_ms
        view = replace(PoolView(self.at_ms, replicas, waiting), **rest)  # type: ignore[arg-type]
        self.memory, decision = decide(view, self.memory, self.knobs)
        return decision


def warm(id: str = "a", running: int = 0, since_ms: int = 0, idle_ms: int = 10**9) -> ReplicaView:
    return ReplicaView(id, Phase.WARM, since_ms, running=running, idle_ms=idle_ms)


def refusing(id: str = "a", running: int = 0) -> ReplicaView:
    return ReplicaView(id, Phase.DRAINING, 0, running=running, idle_ms=10**9)


def loading(id: str = "a") -> ReplicaView:
    return ReplicaView(id, Phase.STARTING, 0)


def drained(pool: Pool) -> ScaleDecision:
    """Leads an idle pool of one replica to the point where it has just been given up."""
    pool.sees(warm())
    pool.sees(warm(), after_ms=10_000)
    pool.sees(warm(), after_ms=600)
    return pool.sees(refusing())


def test_cold_pool_stays_cold_without_demand() -> None:
    pool = Pool()
    assert pool.sees(after_ms=10**9).target == 0


def test_ten_waiting_callers_cause_one_start_of_as_many_replicas_as_hold_them() -> None:
    pool = Pool()
    first = pool.sees(waiting=10)
    assert (first.target, first.reason) == (3, Reason.DEMAND)
    for _ in range(50):
        held = pool.sees(loading("a"), loading("b"), loading("c"), waiting=10)
        assert (held.target, held.reason) == (3, Reason.STARTING)


def test_callers_who_come_while_replicas_load_count_once_more() -> None:
    pool = Pool()
    assert pool.sees(waiting=4).target == 1
    more = pool.sees(loading(), waiting=9)
    assert (more.target, more.reason) == (3, Reason.QUEUE_DEPTH)
    assert pool.sees(loading("a"), loading("b"), loading("c"), waiting=9).target == 3


def test_loading_counts_as_busy_even_when_the_caller_left() -> None:
    pool = Pool()
    pool.sees(waiting=1)
    assert pool.sees(loading(), after_ms=30_000).target == 1


def test_depth_beyond_the_slots_raises_after_a_delay() -> None:
    pool = Pool(target=2)
    full = warm("a", 4), warm("b", 4)
    assert pool.sees(*full, waiting=2).target == 2
    raised = pool.sees(*full, waiting=2, after_ms=2_000)
    assert (raised.target, raised.reason) == (3, Reason.QUEUE_DEPTH)


def test_twice_the_need_raises_at_once_and_up_to_the_maximum() -> None:
    raised = Pool(target=1).sees(warm(running=4), waiting=20)
    assert (raised.target, raised.reason) == (3, Reason.QUEUE_DEPTH)


def test_decision_has_the_numbers_that_led_to_it() -> None:
    terms = Pool(target=1).sees(warm(running=3), waiting=2).terms
    assert terms is not None
    assert (terms.running, terms.waiting, terms.for_first_token) == (3, 2, 2)


def test_pool_goes_down_to_one_after_the_shorter_window_and_to_none_after_the_longer() -> None:
    pool = Pool(target=3, knobs=replace(KNOBS, down_ms=4_000, idle_ms=20_000))
    pool.memory = replace(pool.memory, cold_start_ms=2_000)
    replicas = [warm(name, since_ms=place) for place, name in enumerate("abc")]
    pool.sees(*replicas)
    assert pool.sees(*replicas, after_ms=4_000).leaving == {"b", "c"}
    pool.sees(*replicas, after_ms=600)
    assert pool.sees(replicas[0], refusing("b"), refusing("c")).target == 1
    assert pool.sees(replicas[0]).leaving == set()
    assert pool.sees(replicas[0], after_ms=16_000).leaving == {"a"}


def test_idle_pool_leaves_then_refuses_then_goes_to_zero() -> None:
    pool = Pool(target=1)
    assert pool.sees(warm()).reason is Reason.STEADY
    leaving = pool.sees(warm(), after_ms=10_000)
    assert (leaving.target, leaving.leaving, leaving.refusing) == (1, {"a"}, set())
    told = pool.sees(warm(), after_ms=600)
    assert (told.target, told.refusing) == (1, {"a"})
    assert pool.sees(refusing()).target == 0


def test_last_idle_replica_stays_for_its_worth_and_never_beyond_idle_s() -> None:
    for keep_ms, gone_after_ms in ((4_000, 4_000), (99_000, 10_000), (None, 10_000)):
        pool, demand = Pool(target=1), Demand(keep_ms=keep_ms)
        pool.sees(warm(), demand=demand)
        assert pool.sees(warm(), after_ms=gone_after_ms - 1, demand=demand).leaving == set()
        assert pool.sees(warm(), after_ms=1, demand=demand).leaving == {"a"}


def test_call_that_slipped_in_before_the_refusal_cancels_the_way_down() -> None:
    pool = Pool(target=1)
    pool.sees(warm())
    pool.sees(warm(), after_ms=10_000)
    cancelled = pool.sees(refusing(running=1), after_ms=600)
    assert (cancelled.target, cancelled.reason) == (1, Reason.DRAIN_CANCELLED)
    assert cancelled.refusing == set()


def test_caller_waiting_during_the_way_down_cancels_it() -> None:
    pool = Pool(target=1)
    pool.sees(warm())
    pool.sees(warm(), after_ms=10_000)
    assert pool.sees(refusing(), waiting=1, after_ms=600).reason is Reason.DRAIN_CANCELLED


def test_caller_after_the_point_of_no_return_starts_a_fresh_replica() -> None:
    pool = Pool(target=1)
    assert drained(pool).target == 0
    again = pool.sees(refusing(), waiting=1)
    assert (again.target, again.reason) == (1, Reason.DEMAND)


def test_short_calls_between_two_looks_keep_the_pool_warm() -> None:
    pool = Pool(target=1)
    for _ in range(200):
        assert pool.sees(warm(idle_ms=300), after_ms=500).target == 1


def test_never_below_the_minimum() -> None:
    pool = Pool(target=2, knobs=replace(KNOBS, min_replicas=1))
    replicas = [warm("old", since_ms=1), warm("new", since_ms=2)]
    pool.sees(*replicas)
    leaving = pool.sees(*replicas, after_ms=10_000)
    assert leaving.leaving == {"new"}
    pool.sees(*replicas, after_ms=600)
    assert pool.sees(replicas[0], refusing("new")).target == 1
    assert pool.sees(replicas[0], after_ms=60_000).target == 1


def test_square_wave_does_not_flap() -> None:
    pool = Pool(target=2)
    targets = set()
    for second in range(120):
        busy = 5 if second % 8 < 4 else 0
        targets.add(pool.sees(warm("a", busy), warm("b"), after_ms=1_000).target)
    assert targets == {2}


def test_broken_model_backs_off_and_says_why() -> None:
    pool = Pool()
    pauses = []
    for _ in range(6):
        raised = pool.sees(waiting=1)
        assert raised.target == 1
        failed = pool.sees(waiting=1, deaths_ms=(pool.at_ms,) * 3, error="no such file")
        assert (failed.target, failed.reason) == (0, Reason.QUARANTINED)
        assert "no such file" in failed.detail
        assert failed.quarantined_until_ms is not None
        pauses.append(failed.quarantined_until_ms - pool.at_ms)
        assert pool.sees(waiting=1, after_ms=pauses[-1] - 1).target == 0
        pool.at_ms += 1
    assert pauses == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]


def test_deaths_before_the_start_are_not_held_against_it() -> None:
    pool = Pool()
    pool.sees(warm())
    old = (pool.at_ms - 5_000,) * 9
    pool.sees(waiting=1, deaths_ms=old)
    assert pool.sees(waiting=1, deaths_ms=old).target == 1


def test_start_without_end_is_a_failed_start() -> None:
    pool = Pool()
    pool.sees(waiting=1)
    assert pool.sees(loading(), after_ms=60_001).reason is Reason.QUARANTINED


def test_measured_start_moves_the_estimate_towards_it() -> None:
    pool = Pool()
    pool.sees(waiting=1)
    pool.sees(warm(), after_ms=2_000)
    assert pool.memory.cold_start_ms == 5_000 + 0.3 * (2_000 - 5_000)


def test_first_measured_start_replaces_the_guess() -> None:
    pool = Pool(knobs=replace(KNOBS, cold_start_guess_ms=5_000))
    pool.sees(waiting=1)
    pool.sees(warm(), after_ms=2_000)
    assert pool.memory.cold_start_ms == 2_000


def test_adopted_pool_takes_no_needless_action() -> None:
    pool = Pool(target=2)
    assert pool.sees(warm("a", 3), warm("b", 3)).target == 2


def test_survivor_of_a_drain_works_again_when_another_was_stopped() -> None:
    pool = Pool(target=2)
    both = [warm("old", since_ms=1), warm("new", since_ms=2)]
    pool.sees(*both)
    pool.sees(*both, after_ms=10_000)
    pool.sees(*both, after_ms=600)
    assert pool.sees(refusing("old"), refusing("new"), after_ms=100).target == 0


def test_replica_with_a_call_in_its_queue_is_not_given_up() -> None:
    """What waits inside a replica that refuses is lost with it, though nothing runs there yet."""
    pool = Pool(target=2, knobs=replace(KNOBS, min_replicas=1))
    old, new = warm("old", since_ms=1), warm("new", since_ms=2)
    pool.sees(old, new)
    assert pool.sees(old, new, after_ms=10_000).leaving == {"new"}
    pool.sees(old, new, after_ms=600)
    queued = replace(refusing("new"), queued=1)
    held = pool.sees(old, queued)
    assert (held.target, held.reason, held.refusing) == (2, Reason.DRAINING, {"new"})
    assert pool.sees(old, refusing("new")).target == 1


def test_leaving_replica_refuses_nothing_before_gateways_have_heard_of_it() -> None:
    pool = Pool(target=1)
    pool.sees(warm())
    pool.sees(warm(), after_ms=10_000)
    heard = pool.sees(warm(), after_ms=KNOBS.settle_ms - 1)
    assert (heard.leaving, heard.refusing) == ({"a"}, set())
    assert pool.sees(warm(), after_ms=1).refusing == {"a"}


def test_as_many_remain_as_the_window_needed_at_its_peak() -> None:
    pool = Pool(target=3)
    replicas = [warm(name, since_ms=place) for place, name in enumerate("abc")]
    busy = [replace(replicas[0], running=4), replace(replicas[1], running=1), replicas[2]]
    pool.sees(*busy)
    pool.sees(*replicas, after_ms=5_000)
    assert pool.sees(*replicas, after_ms=5_000).leaving == {"c"}


def test_none_of_those_that_leave_is_given_up_before_all_are_idle() -> None:
    pool = Pool(target=3, knobs=replace(KNOBS, min_replicas=1))
    replicas = [warm(name, since_ms=place) for place, name in enumerate("abc")]
    pool.sees(*replicas)
    assert pool.sees(*replicas, after_ms=10_000).leaving == {"b", "c"}
    pool.sees(*replicas, after_ms=600)
    held = pool.sees(replicas[0], replace(refusing("b"), queued=1), refusing("c"))
    assert (held.target, held.reason) == (3, Reason.DRAINING)
    assert pool.sees(replicas[0], refusing("b"), refusing("c")).target == 1


def test_replica_that_does_not_become_idle_stays_after_the_timeout_and_not_before() -> None:
    pool = Pool(target=2, knobs=replace(KNOBS, min_replicas=1))
    old, new = warm("old", since_ms=1), warm("new", since_ms=2)
    pool.sees(old, new)
    pool.sees(old, new, after_ms=10_000)
    at_work = replace(refusing("new"), queued=1)
    bound_ms = KNOBS.settle_ms + KNOBS.drain_timeout_ms
    assert pool.sees(old, at_work, after_ms=bound_ms).reason is Reason.DRAINING
    cancelled = pool.sees(old, at_work, after_ms=1)
    assert (cancelled.target, cancelled.reason) == (2, Reason.DRAIN_CANCELLED)


def test_replica_that_was_given_up_refuses_until_it_is_stopped() -> None:
    pool = Pool(target=1)
    assert drained(pool).refusing == {"a"}
    stopping = pool.sees(refusing())
    assert (stopping.target, stopping.reason, stopping.refusing) == (0, Reason.DRAINING, {"a"})
    assert pool.sees().reason is Reason.DRAINED


def test_replica_that_was_given_up_and_is_not_stopped_takes_work_after_the_timeout() -> None:
    pool = Pool(target=1)
    drained(pool)
    bound_ms = KNOBS.settle_ms + KNOBS.drain_timeout_ms
    assert pool.sees(refusing(), after_ms=bound_ms).refusing == {"a"}
    assert pool.sees(refusing(), after_ms=1).refusing == set()


def test_window_of_an_idle_pool_begins_with_the_end_of_its_last_call() -> None:
    pool = Pool(target=1)
    pool.sees(warm(idle_ms=0))
    assert pool.sees(warm(idle_ms=10_000), after_ms=10_000).leaving == {"a"}


def test_short_calls_keep_one_replica_and_not_all() -> None:
    pool = Pool(target=3)
    replicas = [warm(name, since_ms=place) for place, name in enumerate("abc")]
    pool.sees(*replicas)
    pool.sees(replace(replicas[0], idle_ms=300), *replicas[1:], after_ms=5_000)
    assert pool.sees(
        replace(replicas[0], idle_ms=5_300), *replicas[1:], after_ms=5_000
    ).leaving == {
        "b",
        "c",
    }


def test_pool_that_is_needed_whole_never_begins_to_leave() -> None:
    pool = Pool(target=1)
    for _ in range(30):
        assert pool.sees(warm(running=1), after_ms=1_000).reason is Reason.STEADY


def test_a_fetch_is_no_part_of_the_measured_start() -> None:
    pool = Pool()
    pool.sees(waiting=1)
    pool.sees(loading(), waiting=1, after_ms=40_000, is_fetching=True)
    pool.sees(replace(warm(running=1), fetch_ms=38_000), after_ms=1_000)
    assert pool.memory.cold_start_ms == 5_000 + 0.3 * (3_000 - 5_000)


def test_a_start_is_not_too_long_while_bytes_of_its_checkpoint_arrive() -> None:
    pool = Pool()
    pool.sees(waiting=1)
    for _ in range(10):
        decision = pool.sees(loading(), waiting=1, after_ms=50_000, is_fetching=True)
        assert decision.target == 1
    assert pool.sees(loading(), waiting=1, after_ms=59_000).target == 1
    assert pool.sees(loading(), waiting=1, after_ms=2_000).reason is Reason.QUARANTINED
