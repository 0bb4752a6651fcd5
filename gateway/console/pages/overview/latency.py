"""The last hour in minutes: how long calls took, and how much came out. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from billing.queries import Timing
from billing.usage.percentile import MEDIAN, TAIL, percentile
from gateway.console.charts import (
    LEFT,
    Band,
    Bar,
    Scale,
    band,
    bars,
    linear_scale,
    log_scale,
    slot_middle,
    slot_width,
)
from gateway.console.formatting import count, duration, plural

BUCKETS = 60
BUCKET_US = 60_000_000
GUIDE_EVERY = 15


@dataclass(frozen=True, slots=True)
class Tick:
    y: float
    label: str


@dataclass(frozen=True, slots=True)
class Hint:
    """What is said of one minute when one points at it."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartView:
    title: str
    headline: str
    aside: str
    description: str
    ticks: tuple[Tick, ...]
    band: Band | None
    bars: tuple[Bar, ...]
    hints: tuple[Hint, ...]
    is_empty: bool


@dataclass(frozen=True, slots=True)
class LastHour:
    charts: tuple[ChartView, ...]
    guides: tuple[tuple[float, str], ...]
    """(x, time of day) of the upright lines."""
    calls: int
    ttft: str
    ttft_tail: str
    cut_at: int
    """How many of the newest calls these are, if there were more; else 0."""


def hour_start_us(now_us: int) -> int:
    """The first instant of the first minute shown; the running minute is the last."""
    return now_us - now_us % BUCKET_US - (BUCKETS - 1) * BUCKET_US


def last_hour(timings: Sequence[Timing], *, now_us: int, read_max: int) -> LastHour:
    """`timings` are the calls that ended since `hour_start_us`, at most `read_max` of them."""
    start_us = hour_start_us(now_us)
    minutes: list[list[Timing]] = [[] for _ in range(BUCKETS)]
    for timing in timings:
        place = (timing.ended_us - start_us) // BUCKET_US
        if 0 <= place < BUCKETS:
            minutes[place].append(timing)
    first = [t.first_token_us - t.admitted_us for t in timings if t.first_token_us is not None]
    return LastHour(
        charts=(
            _latency("Time to first token", minutes, _first_token_us, start_us),
            _latency("Whole call", minutes, _whole_us, start_us),
            _throughput(minutes, start_us),
        ),
        guides=_guides(start_us),
        calls=len(timings),
        ttft=duration(percentile(first, MEDIAN)) if first else "",
        ttft_tail=duration(percentile(first, TAIL)) if first else "",
        cut_at=read_max if len(timings) >= read_max else 0,
    )


def _first_token_us(timing: Timing) -> int | None:
    return None if timing.first_token_us is None else timing.first_token_us - timing.admitted_us


def _whole_us(timing: Timing) -> int | None:
    return timing.ended_us - timing.admitted_us


def _latency(
    title: str,
    minutes: Sequence[Sequence[Timing]],
    measure: Callable[[Timing], int | None],
    start_us: int,
) -> ChartView:
    lengths = [
        [max(1, us) for timing in minute if (us := measure(timing)) is not None]
        for minute in minutes
    ]
    pairs = [(percentile(us, MEDIAN), percentile(us, TAIL)) if us else None for us in lengths]
    everything = [us for minute in lengths for us in minute]
    scale = log_scale([value for pair in pairs if pair for value in pair])
    hints = [
        f"{_clock(start_us, place)} UTC: median {duration(pair[0])}, 95 % within "
        f"{duration(pair[1])}, {plural(len(lengths[place]), 'call')}"
        if pair
        else ""
        for place, pair in enumerate(pairs)
    ]
    median, tail = _summary(everything)
    return ChartView(
        title=title,
        headline=median,
        aside=tail,
        description=f"{title} per minute of the last hour: median {median or 'unknown'}; {tail}",
        ticks=_ticks(scale, lambda value: _round_duration(round(value))),
        band=band(pairs, scale),
        bars=(),
        hints=_hints(hints),
        is_empty=not everything,
    )


def _throughput(minutes: Sequence[Sequence[Timing]], start_us: int) -> ChartView:
    tokens = [sum(timing.output for timing in minute) for minute in minutes]
    scale = linear_scale(tokens)
    hints = [
        f"{_clock(start_us, place)} UTC: {plural(made, 'output token')}, "
        f"{plural(len(minutes[place]), 'call')}"
        if minutes[place]
        else ""
        for place, made in enumerate(tokens)
    ]
    calls = sum(len(minute) for minute in minutes)
    headline = count(sum(tokens)) if calls else ""
    return ChartView(
        title="Output tokens a minute",
        headline=headline,
        aside=f"tokens in {plural(calls, 'call')}",
        description=f"Output tokens per minute of the last hour: {headline or 'none'} in all.",
        ticks=_ticks(scale, lambda value: f"{value:,.0f}"),
        band=None,
        bars=bars(tokens, scale),
        hints=_hints(hints),
        is_empty=not calls,
    )


def _summary(lengths: Sequence[int]) -> tuple[str, str]:
    if not lengths:
        return "", ""
    return (
        duration(percentile(lengths, MEDIAN)),
        f"median, 95 % within {duration(percentile(lengths, TAIL))}",
    )


def _ticks(scale: Scale, label: Callable[[float], str]) -> tuple[Tick, ...]:
    return tuple(Tick(scale.y(value), label(value)) for value in scale.ticks)


def _round_duration(us: int) -> str:
    """Of a tick, which is a round figure: `200 µs`, `5 ms`, `10 s`."""
    for unit_us, name in ((1_000_000, "s"), (1000, "ms")):
        if us >= unit_us:
            return f"{us / unit_us:g} {name}"
    return f"{us} µs"


def _hints(texts: Sequence[str]) -> tuple[Hint, ...]:
    width = slot_width(len(texts))
    return tuple(
        Hint(round(LEFT + place * width, 1), round(width, 1), text)
        for place, text in enumerate(texts)
        if text
    )


def _guides(start_us: int) -> tuple[tuple[float, str], ...]:
    minutes = start_us // BUCKET_US
    return tuple(
        (slot_middle(place, BUCKETS), _clock(start_us, place))
        for place in range(BUCKETS)
        if (minutes + place) % GUIDE_EVERY == 0
    )


def _clock(start_us: int, place: int) -> str:
    at = datetime.fromtimestamp((start_us + place * BUCKET_US) // 1_000_000, UTC)
    return f"{at:%H:%M}"
