"""The calls that the days before lead one to expect in the next minutes. Pure.

Each five minutes of the day (UTC) have a memory: on how large a share of the last days calls came,
and how many were open on average. A forecast is that of the day before and those before it
(seasonal naive, weights that halve in about two days), and what today differs from it so far. A
replica that would be started now, and be warm for those minutes, is worth what its callers would
else wait. It costs what it idles until they come, and for nothing if they do not. It is started
where the first is more than the second.
"""

from dataclasses import dataclass, replace
from math import erf, sqrt
from typing import Final, NamedTuple

BIN_MS: Final = 300_000
BINS: Final = 288
DAY_MS: Final = BIN_MS * BINS
DAYS_LEAST: Final = 2
"""Fewer days lead one to expect nothing."""
DAY_WEIGHT: Final = 0.3
"""Of the newest day."""
TODAY_WEIGHT: Final = 0.3
"""Of the newest five minutes, in what today differs from the days before."""
LEAD_MS: Final = 30_000
"""How long before its minutes a replica is to be warm."""
COVERED_LEAST: Final = 0.5
"""Five minutes of which less was seen are not remembered."""
PROBABILITY_LEAST: Final = 0.1
"""What is less likely is not started early, even where replicas cost nothing."""
DEVIATION_OF_MEAN: Final = 1.2533
"""The standard deviation of a normal variable, for a mean absolute difference of one."""


class Minutes(NamedTuple):
    """Five minutes of the day: on how many days they were seen, on what share of them calls were
    open, and how many on average."""

    days: int = 0
    active: float = 0.0
    level: float = 0.0


class OpenMinutes(NamedTuple):
    """The five minutes that run: their number since 1970, how much of them was seen, how long calls
    were open in it, all together, and how many had begun before."""

    number: int
    covered_ms: int = 0
    open_ms: int = 0
    begun: int = 0


@dataclass(frozen=True, slots=True)
class Season:
    """The memory of one pool. `active_off` and `level_off`: what today differs; `spread`: by how
    much the level usually does."""

    minutes: tuple[Minutes, ...] = (Minutes(),) * BINS
    active_off: float = 0.0
    level_off: float = 0.0
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """The calls of five minutes, of which `number` is the count since 1970."""

    number: int
    probability: float
    level: float
    deviation: float

    def exceeds(self, level: float) -> float:
        """The probability that more calls than this are open, for a normal level."""
        if level <= 0:
            return self.probability
        if self.deviation <= 0:
            return self.probability * (self.level > level)
        share = 0.5 * (1 - erf((level - self.level) / (self.deviation * sqrt(2))))
        return self.probability * share


@dataclass(frozen=True, slots=True)
class Values:
    """What decides whether to start early: USD a second of a replica and of a caller who waits,
    and how long a start takes and an idle replica stays."""

    replica_usd_per_s: float
    wait_usd_per_s: float
    start_ms: int
    idle_ms: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """The replicas that are worth starting before their calls. The other figures are those of the
    last one that is, or of the first where none is."""

    number: int
    replicas: int
    probability: float
    saving_usd: float
    cost_usd: float


def after_look(
    season: Season, running: OpenMinutes | None, *, at_ms: int, since_ms: int, load: int, begun: int
) -> tuple[Season, OpenMinutes]:
    """One more look at `at_ms`, the one before was at `since_ms`. `begun` counts calls on, so that
    one between two looks is seen too."""
    number = at_ms // BIN_MS
    if running is not None and running.number != number:
        season = _with_day(season, running, begun)
        running = None
    if running is None:
        return season, OpenMinutes(number, begun=begun)
    took_ms = at_ms - max(since_ms, number * BIN_MS)
    return season, running._replace(
        covered_ms=running.covered_ms + took_ms, open_ms=running.open_ms + load * took_ms
    )


def expectation(season: Season, at_ms: int) -> Expectation | None:
    """Of the five minutes around an instant. None: too few days were seen."""
    number = at_ms // BIN_MS
    minutes = season.minutes[number % BINS]
    if minutes.days < DAYS_LEAST:
        return None
    return Expectation(
        number,
        min(max(minutes.active + season.active_off, 0.0), 1.0),
        max(minutes.level + season.level_off, 0.0),
        season.spread * DEVIATION_OF_MEAN,
    )


def forecast(
    season: Season, *, at_ms: int, slots: int, most: int, values: Values
) -> Forecast | None:
    """The replicas to have for the minutes that a start begun now would be early for."""
    expected = expectation(season, at_ms + values.start_ms + LEAD_MS)
    if expected is None:
        return None
    best = _of_replica(expected, 1, slots, values)
    for count in range(1, most + 1):
        each = _of_replica(expected, count, slots, values)
        if each.saving_usd <= each.cost_usd or each.probability < PROBABILITY_LEAST:
            break
        best = replace(each, replicas=count)
    return best


def _of_replica(expected: Expectation, nth: int, slots: int, values: Values) -> Forecast:
    """What it saves and costs to start the nth replica early. Its callers are those whom fewer
    replicas would not hold, at least one. Where they come, it has idled half of the minutes."""
    below = (nth - 1) * slots
    probability = expected.exceeds(below)
    callers = min(slots, max(1.0, expected.level + expected.deviation - below))
    saving = probability * callers * values.start_ms / 1000 * values.wait_usd_per_s
    in_vain_ms = min(BIN_MS, values.idle_ms)
    idle_ms = LEAD_MS + probability * in_vain_ms / 2 + (1 - probability) * in_vain_ms
    cost = idle_ms / 1000 * values.replica_usd_per_s
    return Forecast(expected.number, 0, probability, saving, cost)


def _with_day(season: Season, ended: OpenMinutes, begun: int) -> Season:
    """Remember five minutes that ended, and what they differed from what was expected."""
    if ended.covered_ms < COVERED_LEAST * BIN_MS:
        return season
    place = ended.number % BINS
    before = season.minutes[place]
    level = ended.open_ms / ended.covered_ms
    active = 1.0 if ended.open_ms or begun > ended.begun else 0.0
    weight = max(DAY_WEIGHT, 1 / (before.days + 1))
    after = Minutes(
        before.days + 1,
        _moved(before.active, active, weight),
        _moved(before.level, level, weight),
    )
    season = replace(season, minutes=_with(season.minutes, place, after))
    if before.days < DAYS_LEAST:
        return season
    off = level - before.level
    return replace(
        season,
        active_off=_moved(season.active_off, active - before.active, TODAY_WEIGHT),
        spread=_moved(season.spread, abs(off - season.level_off), TODAY_WEIGHT),
        level_off=_moved(season.level_off, off, TODAY_WEIGHT),
    )


def _moved(before: float, now: float, weight: float) -> float:
    return before + weight * (now - before)


def _with(minutes: tuple[Minutes, ...], place: int, changed: Minutes) -> tuple[Minutes, ...]:
    return (*minutes[:place], changed, *minutes[place + 1 :])
