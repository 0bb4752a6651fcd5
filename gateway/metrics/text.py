"""What a scrape is told, in Prometheus' text format, which the library writes.

Imported by the first scrape: the library brings an HTTP server of its own along, which costs a
gateway that is starting more than everything it says.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gateway.metrics.tally import DURATION_US, TTFT_US, Calls, Ended, Tally

CONTENT_TYPE = CONTENT_TYPE_LATEST
LABELS = ("model", "tier", "pool", "status")
TOKENS = ("input", "cached_input", "output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """A gateway at the instant of the scrape."""

    open_calls: int
    waiting: Mapping[str, int]
    """Calls held here for a worker, by pool."""
    unsettled_calls: int
    limiter_is_away: bool
    redis_filled: float
    """Of the memory it may use, 0 to 1."""
    spool_bytes: int
    """Of segments that the ledger has yet to confirm."""
    loop_lag_s: float
    fleet_age_s: float
    replicas: Mapping[tuple[str, str], int]
    """As published, by pool and state."""


def text(tally: Tally, now: Now) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told([*_counters(tally), *_gauges(now)]))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Told(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _counters(tally: Tally) -> Iterator[Metric]:
    calls = CounterMetricFamily("sluice_calls", "Calls that were admitted and ended", labels=LABELS)
    tokens = CounterMetricFamily(
        "sluice_tokens", "Tokens of ended calls, as charged", labels=("model", "tier", "class")
    )
    refused = CounterMetricFamily(
        "sluice_errors",
        "Errors that callers were told on the routes that call models",
        labels=("status", "code"),
    )
    for what, ended in tally.ended.items():
        calls.add_metric(what, ended.calls)
    for (model, tier), each in _grouped(tally.ended, 2).items():
        for name in TOKENS:
            tokens.add_metric((model, tier, name), sum(getattr(ended, name) for ended in each))
    for (status, code), count in tally.refused.items():
        refused.add_metric((str(status), code), count)
    yield from (calls, tokens, refused)
    by_model = _grouped(tally.ended, 1)
    yield _histogram(
        "sluice_time_to_first_token_seconds",
        "From a call's admission to its first token",
        TTFT_US,
        {model: [(e.ttft, e.ttft_us) for e in each] for (model,), each in by_model.items()},
    )
    yield _histogram(
        "sluice_call_duration_seconds",
        "From a call's admission to its end",
        DURATION_US,
        {model: [(e.duration, e.duration_us) for e in each] for (model,), each in by_model.items()},
    )


def _grouped(ended: Mapping[Calls, Ended], labels: int) -> dict[tuple[str, ...], list[Ended]]:
    """By the first so many labels."""
    found: dict[tuple[str, ...], list[Ended]] = {}
    for what, each in ended.items():
        found.setdefault(what[:labels], []).append(each)
    return found


def _histogram(
    name: str,
    words: str,
    bounds_us: Sequence[int],
    by_model: Mapping[str, Sequence[tuple[list[int], int]]],
) -> Metric:
    """Of counts by bucket and sums in microseconds, several to a model."""
    family = HistogramMetricFamily(name, words, labels=("model",))
    bounds = [*(str(us / 1e6) for us in bounds_us), "+Inf"]
    for model, each in by_model.items():
        counts = accumulate(map(sum, zip(*(counts for counts, _ in each), strict=True)))
        sum_s = sum(us for _, us in each) / 1e6
        family.add_metric((model,), list(zip(bounds, counts, strict=True)), sum_s)
    return family


def _gauges(now: Now) -> Iterator[Metric]:
    for name, words, value in (
        ("sluice_open_calls", "Calls that are open in this gateway", now.open_calls),
        (
            "sluice_unsettled_calls",
            "Ended ones Redis is still to hear of",
            now.unsettled_calls,
        ),
        ("sluice_limiter_away", "1 while limits are this gateway's own", now.limiter_is_away),
        ("sluice_redis_memory_ratio", "Of what it may use; flex is shed at 0.6", now.redis_filled),
        ("sluice_spool_unconfirmed_bytes", "What the ledger has yet to take", now.spool_bytes),
        ("sluice_loop_lag_seconds", "The worst of the event loop, lately", now.loop_lag_s),
        ("sluice_fleet_age_seconds", "Since the controller last published", now.fleet_age_s),
    ):
        yield GaugeMetricFamily(name, words, value)
    waiting = GaugeMetricFamily("sluice_waiting_calls", "Calls held for a worker", labels=("pool",))
    for pool, count in now.waiting.items():
        waiting.add_metric((pool,), count)
    replicas = GaugeMetricFamily("sluice_replicas", "As published", labels=("pool", "state"))
    for where, count in now.replicas.items():
        replicas.add_metric(where, count)
    yield from (waiting, replicas)
