"""The forecast: it starts what saves more than it costs, once for the same minutes, and never
before days were seen."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.autoscaling.test_laws import knobs
from workers.autoscaling.demand import Demand
from workers.autoscaling.forecast import (
    BIN_MS,
    BINS,
    DAY_MS,
    DAYS_LEAST,
    LEAD_MS,
    PROBABILITY_LEAST,
    Forecast,
    Minutes,
    OpenMinutes,
    Season,
    Values,
    after_look,
    expectation,
    forecast,
)
from workers.autoscaling.scale import decide
from workers.autoscaling.types import (
    Knobs,
    Phase,
    PoolMemory,
    PoolView,
    Reason,
    ReplicaView,
)

DEAR_CALLERS = Values(
    replica_usd_per_s=0.0001, wait_usd_per_s=0.01, start_ms=30_000, idle_ms=120_000
)
NINE_MS = 9 * 3_600_000
LOOK_MS = 15_000


@st.composite
def seasons(draw: st.DrawFn) -> Season:
    minutes = Minutes(
        draw(st.integers(0, 9)), draw(st.floats(0, 1)), draw(st.floats(0, 200, width=32))
    )
    off = st.floats(-50, 50)
    return Season((minutes,) * BINS, draw(st.floats(-1, 1)), draw(off), draw(st.floats(0, 50)))


PRICES = st.floats(0, 0.01)


@st.composite
def values(draw: st.DrawFn) -> Values:
    return Values(
        draw(PRICES), draw(PRICES), draw(st.integers(0, 900_000)), draw(st.integers(0, 7_200_000))
    )


@given(
    season=seasons(),
    worth=values(),
    slots=st.integers(1, 64),
    most=st.integers(0, 40),
    at_ms=st.integers(0, 10**13),
)
def test_forecast_asks_only_for_what_saves_more_than_it_costs(
    season: Season, worth: Values, slots: int, most: int, at_ms: int
) -> None:
    asks = forecast(season, at_ms=at_ms, slots=slots, most=most, values=worth)
    if season.minutes[0].days < DAYS_LEAST:
        assert asks is None
        return
    assert asks is not None
    assert 0 <= asks.replicas <= most
    if asks.replicas:
        assert asks.saving_usd > asks.cost_usd
        assert asks.probability >= PROBABILITY_LEAST


@given(
    season=seasons(),
    worth=values(),
    slots=st.integers(1, 64),
    more=PRICES,
)
def test_dearer_callers_never_mean_fewer_replicas_and_dearer_replicas_never_more(
    season: Season, worth: Values, slots: int, more: float
) -> None:
    def replicas(values: Values) -> int:
        asks = forecast(season, at_ms=0, slots=slots, most=20, values=values)
        return 0 if asks is None else asks.replicas

    assert replicas(worth) <= replicas(replace(worth, wait_usd_per_s=worth.wait_usd_per_s + more))
    dearer = replace(worth, replica_usd_per_s=worth.replica_usd_per_s + more)
    assert replicas(worth) >= replicas(dearer)


def season_of(days: int, level: int, *, skips: int = 0) -> Season:
    """Calls from nine to half past nine on each day, seen every LOOK_MS, but for the last ones."""
    season, running = Season(), None
    begun = 0
    for at_ms in range(0, days * DAY_MS, LOOK_MS):
        is_busy = NINE_MS <= at_ms % DAY_MS < NINE_MS + 6 * BIN_MS and at_ms < DAY_MS * (
            days - skips
        )
        begun += is_busy
        season, running = after_look(
            season,
            running,
            at_ms=at_ms,
            since_ms=at_ms - LOOK_MS,
            load=level if is_busy else 0,
            begun=begun,
        )
    return season


def test_days_are_learned() -> None:
    season = season_of(3, level=20)
    nine = expectation(season, 3 * DAY_MS + NINE_MS)
    eight = expectation(season, 3 * DAY_MS + NINE_MS - 12 * BIN_MS)
    assert nine is not None
    assert eight is not None
    assert (round(nine.probability, 6), round(nine.level, 6)) == (1.0, 20.0)
    assert (eight.probability, eight.level) == (0.0, 0.0)
    asks = forecast(
        season,
        at_ms=3 * DAY_MS + NINE_MS - DEAR_CALLERS.start_ms - LEAD_MS,
        slots=8,
        most=10,
        values=DEAR_CALLERS,
    )
    assert asks is not None
    assert asks.replicas == 3
    assert expectation(season_of(1, level=20), DAY_MS + NINE_MS) is None


def test_day_without_calls_makes_them_less_likely() -> None:
    sure = expectation(season_of(3, level=20), 3 * DAY_MS + NINE_MS)
    less = expectation(season_of(4, level=20, skips=1), 4 * DAY_MS + NINE_MS)
    assert sure is not None
    assert less is not None
    assert less.probability < sure.probability
    assert less.level < sure.level


def test_minutes_that_were_hardly_seen_are_not_remembered() -> None:
    seen, running = after_look(Season(), None, at_ms=0, since_ms=0, load=5, begun=0)
    seen, running = after_look(seen, running, at_ms=1_000, since_ms=0, load=5, begun=9)
    seen, running = after_look(seen, running, at_ms=BIN_MS, since_ms=1_000, load=0, begun=9)
    assert seen == Season()
    assert running == OpenMinutes(1, begun=9)


LIMITS = Knobs(
    min_replicas=0,
    max_replicas=5,
    slots=8,
    idle_ms=120_000,
    up_delay_ms=2_000,
    settle_ms=600,
    drain_timeout_ms=5_000,
    start_timeout_ms=10**9,
    start_attempts=3,
    backoff_ms=1_000,
    backoff_max_ms=8_000,
)


def expects(replicas: int, number: int = 1) -> Demand:
    return Demand(forecast=Forecast(number, replicas, 0.9, 0.02, 0.01), keep_ms=1_000)


def test_cold_pool_is_started_early_once_and_stays_for_idle_s() -> None:
    memory = PoolMemory(target=0, cold_start_ms=1_000)
    memory, decision = decide(PoolView(0, (), 0, demand=expects(2)), memory, LIMITS)
    assert (decision.target, decision.reason) == (2, Reason.FORECAST)
    assert "saves 0.020000 USD, costs 0.010000" in decision.detail
    idle_s: dict[int, int] = {}
    for at_s in range(2, 300):
        seen = tuple(
            ReplicaView(
                f"r{n}",
                Phase.DRAINING if f"r{n}" in decision.refusing else Phase.WARM,
                1_000,
                idle_ms=(at_s - 1) * 1_000,
            )
            for n in range(decision.target)
        )
        view = PoolView(at_s * 1_000, seen, 0, demand=expects(2))
        memory, decision = decide(view, memory, LIMITS)
        idle_s[at_s] = decision.target
    assert set(idle_s.values()) == {2, 0}
    assert 120 <= max(at_s for at_s, target in idle_s.items() if target) <= 125
    view = PoolView(300_000, (), 0, demand=expects(2, number=2))
    _, decision = decide(view, memory, LIMITS)
    assert decision.target == 2


@settings(max_examples=100, deadline=None)
@given(limits=knobs(), replicas=st.integers(0, 100), met=st.booleans())
def test_early_start_is_within_the_bounds_and_only_for_a_new_forecast(
    limits: Knobs, replicas: int, met: bool
) -> None:
    memory = PoolMemory(target=0, cold_start_ms=1_000, forecast=1 if met else None)
    limits = replace(limits, min_replicas=0)
    _, decision = decide(PoolView(0, (), 0, demand=expects(replicas)), memory, limits)
    assert decision.target == (0 if met else min(replicas, limits.max_replicas))
