"""The laws of demand: more of it never means fewer replicas, one need counts once, and no wave
flaps."""

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.autoscaling.test_laws import knobs, replicas
from workers.autoscaling.demand import Demand, Due, Load, Pace, Worked, learned
from workers.autoscaling.levels import Levels, with_level
from workers.autoscaling.need import note_load, terms_of
from workers.autoscaling.scale import decide
from workers.autoscaling.types import Knobs, Phase, PoolMemory, PoolView, Reason, ReplicaView

PACES = st.builds(
    Pace,
    st.none() | st.floats(1, 1e5, allow_nan=False),
    st.none() | st.floats(1, 1e5, allow_nan=False),
)
LIFE = Knobs(
    min_replicas=0,
    max_replicas=100,
    slots=8,
    idle_ms=120_000,
    up_delay_ms=2_000,
    settle_ms=600,
    drain_timeout_ms=5_000,
    start_timeout_ms=10**9,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
    ttft_ms=1_000,
    down_ms=60_000,
)


@st.composite
def demands(draw: st.DrawFn, waiting: int) -> Demand:
    count = draw(st.integers(0, min(4, waiting)))
    callers = sorted(draw(st.lists(st.integers(1, 200), min_size=count, max_size=count)))
    left_ms = sorted(draw(st.lists(st.integers(0, 60_000), min_size=count, max_size=count)))
    due = tuple(Due(*each) for each in zip(callers, left_ms, strict=True))
    return Demand(due, begun=draw(st.integers(0, 500)), pace=draw(PACES))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), limits=knobs(), seen=replicas(), waiting=st.integers(0, 200))
def test_more_demand_never_means_fewer_replicas(
    data: st.DataObject, limits: Knobs, seen: tuple[ReplicaView, ...], waiting: int
) -> None:
    """More callers, more calls that came, more tokens before the running ones: each alone."""
    limits = replace(limits, ttft_ms=data.draw(st.sampled_from((0, 500, 10_000))), max_replicas=50)
    demand = data.draw(demands(waiting))
    memory = PoolMemory(
        target=data.draw(st.integers(0, 5)),
        cold_start_ms=data.draw(st.integers(1, 20_000)),
        loads=(Load(0, 0, 0),),
        levels=Levels(data.draw(st.integers(0, 3)), 0),
        load_answered=data.draw(st.integers(0, 50)),
        excess_since_ms=data.draw(st.none() | st.just(0)),
        quiet_since_ms=data.draw(st.none() | st.just(0)),
    )
    view = PoolView(8_000, seen, waiting, demand=demand)
    busier = tuple(replace(r, running=r.running + 3) for r in seen)
    fuller = tuple(replace(r, tokens_left=10_000) for r in seen)
    emptier = tuple(replace(r, tokens_left=10) for r in seen)
    more = data.draw(st.integers(1, 100))
    pairs = [
        (view, replace(view, waiting=waiting + more)),
        (view, replace(view, demand=replace(demand, begun=demand.begun + more))),
        (view, replace(view, replicas=busier)),
        (replace(view, replicas=emptier), replace(view, replicas=fuller)),
    ]
    for less, greater in pairs:
        low, high = (terms_of(each, memory, limits).needed for each in (less, greater))
        assert low <= high
        (_, fewer), (_, greater_decision) = (
            decide(each, memory, limits) for each in (less, greater)
        )
        assert fewer.target <= greater_decision.target


@dataclass
class Life:
    """A pool that obeys at once: started replicas are warm after `start_ms`, and calls take a time
    on the slots that are there."""

    limits: Knobs
    start_ms: int
    call_ms: int
    memory: PoolMemory = field(init=False)
    at_ms: int = 0
    born_ms: list[int] = field(default_factory=list)
    waiting: int = 0
    ends_ms: list[int] = field(default_factory=list)
    begun: int = 0
    active_ms: int = 0
    refusing: bool = False
    targets: list[int] = field(default_factory=list)
    reasons: list[Reason] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.memory = PoolMemory(target=0, cold_start_ms=self.start_ms)

    def step(self, ms: int, *, deadline_ms: int = 600_000) -> None:
        self.at_ms += ms
        if any(end <= self.at_ms for end in self.ends_ms):
            self.active_ms = self.at_ms
        self.ends_ms = [end for end in self.ends_ms if end > self.at_ms]
        warm = [born for born in self.born_ms if born + self.start_ms <= self.at_ms]
        free = 0 if self.refusing else len(warm) * self.limits.slots - len(self.ends_ms)
        begin = max(0, min(free, self.waiting))
        self.ends_ms += [self.at_ms + self.call_ms] * begin
        self.waiting -= begin
        self.begun += begin
        due = (Due(self.waiting, deadline_ms - self.at_ms),) if self.waiting else ()
        view = PoolView(
            self.at_ms, self._seen(warm), self.waiting, demand=Demand(due, begun=self.begun)
        )
        self.memory, decision = decide(view, self.memory, self.limits)
        self.refusing = len(decision.refusing) == len(self.born_ms) > 0
        self._leaving = decision.refusing
        self.born_ms = self.born_ms[: decision.target]
        self.born_ms += [self.at_ms] * (decision.target - len(self.born_ms))
        if not self.targets or self.targets[-1] != decision.target:
            self.targets.append(decision.target)
            self.reasons.append(decision.reason)

    _leaving: frozenset[str] = frozenset()

    def _seen(self, warm: list[int]) -> tuple[ReplicaView, ...]:
        """Calls fill the oldest replicas first, as the newest leave first."""
        left, seen = len(self.ends_ms), []
        for place, born in enumerate(self.born_ms):
            id = f"r{place:03}"
            if born not in warm:
                seen.append(ReplicaView(id, Phase.STARTING, place))
                continue
            running = min(left, self.limits.slots)
            left -= running
            phase = Phase.DRAINING if id in self._leaving else Phase.WARM
            idle_ms = 0 if running else self.at_ms - self.active_ms
            seen.append(ReplicaView(id, phase, place, running=running, idle_ms=idle_ms))
        return tuple(seen)


@settings(max_examples=60, deadline=None)
@given(
    callers=st.integers(1, 400),
    start_ms=st.integers(200, 60_000),
    call_ms=st.integers(200, 20_000),
    deadline_ms=st.integers(1_000, 300_000),
    ttft_ms=st.sampled_from((0, 1_000, 30_000)),
)
def test_one_need_of_a_cold_pool_is_one_decision(
    callers: int, start_ms: int, call_ms: int, deadline_ms: int, ttft_ms: int
) -> None:
    """Whatever time the start takes: the callers that wait are not counted again."""
    life = Life(replace(LIFE, ttft_ms=ttft_ms, idle_ms=10**9), start_ms, call_ms)
    life.waiting = callers
    while life.waiting or life.ends_ms:
        life.step(max(200, start_ms // 20), deadline_ms=deadline_ms)
        if life.begun == 0:
            assert len(life.targets) == 1, life.targets
    assert life.reasons[0] is Reason.DEMAND
    assert all(later >= 1 for later in life.targets)


@settings(max_examples=40, deadline=None)
@given(
    high=st.integers(1, 60),
    high_s=st.integers(1, 40),
    low=st.integers(0, 5),
    low_s=st.integers(1, 50),
    start_ms=st.integers(500, 10_000),
)
def test_sh_no_square_wave_flaps(
    high: int, high_s: int, low: int, low_s: int, start_ms: int
) -> None:
    """A wave whose low is shorter than the window of the way down: the count settles."""
    life = Life(LIFE, start_ms, call_ms=700)
    for second in range(6 * (high_s + low_s)):
        life.waiting += high if second % (high_s + low_s) < high_s else low
        life.step(1_000)
    turns = [
        (b - a) * (c - b) < 0
        for a, b, c in zip(life.targets, life.targets[1:], life.targets[2:], strict=False)
    ]
    assert sum(turns) <= 1, life.targets


def test_callers_with_little_time_need_more_replicas_and_those_without_any_need_none() -> None:
    pace = Pace(tokens_per_s=1_000, tokens_per_call=500)
    memory = PoolMemory(target=0, cold_start_ms=10_000)
    limits = replace(LIFE, ttft_ms=60_000)

    def needed(left_ms: int) -> int:
        demand = Demand((Due(80, left_ms),), pace=pace)
        return terms_of(PoolView(0, (), 80, demand=demand), memory, limits).needed

    assert needed(600_000) == 1
    assert needed(20_000) == 4
    assert needed(11_000) == 10
    assert needed(9_000) == 1


def test_load_that_is_usual_is_held_and_a_moment_is_not() -> None:
    """Of two hours: load for four replicas all the time but for a moment, when it is for nine."""
    levels = Levels()
    for second in range(7_200):
        levels = with_level(levels, second * 1_000, 9 if 3_000 <= second < 3_030 else 4, 3_600_000)
        if second == 3_600:
            assert levels.usual == 4
    assert levels.usual == 4 and len(levels.buckets) <= 61


@settings(max_examples=50, deadline=None)
@given(
    looks=st.lists(st.tuples(st.integers(1, 400_000), st.integers(0, 9)), max_size=60),
    window_ms=st.integers(10_000, 3_600_000),
)
def test_more_than_is_usual_was_needed_for_a_short_time_only(
    looks: list[tuple[int, int]], window_ms: int
) -> None:
    """Counted by hand over the last window, to the length of a bucket and of a look."""
    levels, at_ms, spent = with_level(Levels(), 0, 0, window_ms), 0, []
    for took_ms, level in looks:
        at_ms += took_ms
        levels = with_level(levels, at_ms, level, window_ms)
        spent.append((at_ms, took_ms, level))
    bucket_ms = max(1_000, window_ms // 60)
    recent = [each for each in spent if each[0] > at_ms - window_ms + 2 * bucket_ms]
    above_ms = sum(took_ms for _, took_ms, level in recent if level > levels.usual)
    assert above_ms <= 0.01 * window_ms


def test_pool_whose_load_doubles_for_some_seconds_does_not_wait_for_its_queue() -> None:
    pace = Pace(tokens_per_s=10_000, tokens_per_call=10)
    memory = PoolMemory(target=1, cold_start_ms=10_000, loads=(Load(0, 0, 0),))
    busy = ReplicaView("a", Phase.WARM, 0, running=8)
    for second in range(1, 11):
        view = PoolView(second * 1_000, (busy,), 10, demand=Demand(pace=pace))
        memory = note_load(view, memory, LIFE)
    terms = terms_of(view, memory, LIFE)
    assert (terms.open_mean, terms.for_load, terms.for_first_token) == (18.0, 3, 1)


def test_pace_follows_the_fullest_work() -> None:
    pace = learned(Pace(), Worked(calls=10, tokens=20_000, busy_s=20.0))
    assert pace == Pace(1_000, 2_000)
    slower = learned(pace, Worked(calls=10, tokens=1_000, busy_s=20.0))
    assert slower.tokens_per_s is not None and slower.tokens_per_s > 950
    assert learned(pace, Worked(tokens=1, busy_s=0.1)) == pace
