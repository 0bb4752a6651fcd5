"""What a scrape is told, in Prometheus' text format, which the library writes.

Imported by the first scrape: the library brings an HTTP server of its own along, which costs a
gateway that is starting more than everything it says.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

from gateway.metrics.tally import DURATION_US, TTFT_US, Calls, EndedCalls, Tally
from routing.types import Pool
from workers.autoscaling.stages import Stage, StageCount

CONTENT_TYPE = CONTENT_TYPE_LATEST
LABELS = ("model", "tier", "pool", "status")
TOKENS = ("input", "cached_input", "output", "reasoning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """A gateway at the instant of the scrape."""

    gateway: str
    """Its id, which calls are recorded with."""
    open_calls: int
    waiting: Mapping[str, int]
    """Calls held here for a worker, by pool."""
    unsettled_calls: int
    limiter_is_away: bool
    limiter_outages: int
    redis_filled: float
    """Of the memory it may use, 0 to 1."""
    spool_bytes: int
    """Of segments that the ledger has yet to confirm."""
    loop_lag_s: float
    fleet_age_s: float
    policy_version: int
    """Of the routing policy that runs here."""
    policy_is_broken: bool
    decisions_lost: int
    """Decisions that cannot be explained: their records were not handed over."""
    """Whether it is an older one, since the active one cannot be run."""
    quality_version: int
    """Of what was learned of models' quality; 0: nothing."""
    quality_is_broken: bool
    replicas: Mapping[tuple[str, str], int]
    """As published, by pool and state."""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    """Of the catalogue, by name."""
    nodes: Mapping[tuple[str, str, str, str], int] = field(default_factory=dict)
    """As published, by type, market, zone and state."""
    spares: Mapping[str, int] = field(default_factory=dict)
    """As published, by the type of their node."""
    starts: Mapping[str, Mapping[Stage, StageCount]] = field(default_factory=dict)
    """As published, by pool and stage."""
    controller_epoch: int = 0
    node_notices: int = 0
    """Nodes that were heard to leave."""
    faults: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Refusals of servers outside, by pool and status."""
    openings: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """How often breakers opened here, by kind of what they are of and reason."""
    breakers: Mapping[str, int] = field(default_factory=dict)
    """Breakers that are not closed now, by state."""


def text(tally: Tally, now: Now) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families([*families(tally, now)]))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


def families(tally: Tally, now: Now) -> Iterator[Metric]:
    """Every metric of ours, in the order of the text."""
    yield from _counters(tally)
    yield _faults(now)
    yield from _breakers(now)
    yield from _losses(now)
    yield from _starts(now)
    yield from _gauges(now)


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _counters(tally: Tally) -> Iterator[Metric]:
    calls = CounterMetricFamily("sluice_calls", "Calls that were admitted and ended", labels=LABELS)
    tokens = CounterMetricFamily(
        "sluice_tokens", "Tokens of ended calls, as charged", labels=("model", "tier", "class")
    )
    above_hold = CounterMetricFamily(
        "sluice_tokens_above_hold",
        "Tokens that a server outside reported beyond what was held: your cost, never charged",
        labels=("model", "pool", "part"),
    )
    errors = CounterMetricFamily(
        "sluice_errors",
        "Errors that callers were told on the routes that call models",
        labels=("status", "code"),
    )
    above: Counter[tuple[str, str, str]] = Counter()
    for what, ended in tally.ended.items():
        calls.add_metric(what, ended.calls)
    for (model, tier), each in _grouped(tally.ended, 2).items():
        for name in TOKENS:
            tokens.add_metric((model, tier, name), sum(getattr(ended, name) for ended in each))
    for (model, _, pool, _), ended in tally.ended.items():
        for part in ("prompt", "completion"):
            if count := getattr(ended, f"{part}_above_hold"):
                above[model, pool, part] += count
    for labels, count in above.items():
        above_hold.add_metric(labels, count)
    for (status, code), count in tally.refused.items():
        errors.add_metric((str(status), code), count)
    moves = CounterMetricFamily(
        "sluice_moves",
        "Answers whose worker or server was lost or ended: gone on with elsewhere (moved), or ended"
        " with an error (lost)",
        labels=("outcome",),
    )
    for outcome, count in tally.moves.items():
        moves.add_metric((outcome,), count)
    attempts = CounterMetricFamily(
        "sluice_attempts",
        "Attempts of ended calls, by why they were made and how they ended",
        labels=("kind", "outcome"),
    )
    for (kind, outcome), count in tally.attempts.items():
        attempts.add_metric((kind, outcome), count)
    replayed = CounterMetricFamily(
        "sluice_replayed_tokens",
        "Tokens of prompts and answers that a worker had to compute again where an answer went on:"
        " your cost, never charged",
        value=tally.replayed_tokens,
    )
    refused_retries = CounterMetricFamily(
        "sluice_retries_refused",
        "Calls that got no further attempt, because all calls together had had theirs: by the model"
        " and the pool that would have been asked",
        labels=("model", "pool"),
    )
    for where, count in tally.refused_retries.items():
        refused_retries.add_metric(where, count)
    yield from (calls, tokens, above_hold, errors, attempts, refused_retries, moves, replayed)
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


def _faults(now: Now) -> Metric:
    family = CounterMetricFamily(
        "sluice_upstream_faults",
        "Attempts that a server outside refused, by its status, or left unanswered (none)",
        labels=("pool", "status"),
    )
    for where, count in now.faults.items():
        family.add_metric(where, count)
    return family


def _breakers(now: Now) -> Iterator[Metric]:
    openings = CounterMetricFamily(
        "sluice_breaker_openings",
        "How often this gateway began to leave a replica, a pool or a provider's account alone",
        labels=("of", "reason"),
    )
    for what, count in now.openings.items():
        openings.add_metric(what, count)
    states = GaugeMetricFamily(
        "sluice_breakers", "What calls leave alone or probe just now", labels=("state",)
    )
    for state, count in now.breakers.items():
        states.add_metric((state,), count)
    yield from (openings, states)


def _losses(now: Now) -> Iterator[Metric]:
    for name, words, count in (
        ("sluice_limiter_outages", "How often Redis began to count as away", now.limiter_outages),
        (
            "sluice_decision_records_lost",
            "Decisions whose records were not handed over: these cannot be explained",
            now.decisions_lost,
        ),
        (
            "sluice_node_notices",
            "Nodes of which this gateway heard that they would end: no new call goes there",
            now.node_notices,
        ),
    ):
        yield CounterMetricFamily(name, words, count)


def _starts(now: Now) -> Iterator[Metric]:
    labels = ("pool", "stage")
    count = CounterMetricFamily(
        "sluice_starts", "Starts of replicas that came to a stage", labels=labels
    )
    seconds = CounterMetricFamily(
        "sluice_start_seconds", "How long starts of replicas were in a stage", labels=labels
    )
    for pool, stages in now.starts.items():
        for stage, each in stages.items():
            count.add_metric((pool, stage.value), each.starts)
            seconds.add_metric((pool, stage.value), each.s)
    yield from (count, seconds)


def _grouped(
    sums_by_call: Mapping[Calls, EndedCalls], labels: int
) -> dict[tuple[str, ...], list[EndedCalls]]:
    """By the first so many labels."""
    groups: dict[tuple[str, ...], list[EndedCalls]] = {}
    for what, each in sums_by_call.items():
        groups.setdefault(what[:labels], []).append(each)
    return groups


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
    own = GaugeMetricFamily(
        "sluice_gateway_info",
        "1; the label is the id of the gateway, as calls have it",
        labels=("gateway",),
    )
    own.add_metric((now.gateway,), 1)
    yield own
    for name, words, value in (
        ("sluice_open_calls", "Calls that are open in this gateway", now.open_calls),
        (
            "sluice_unsettled_calls",
            "Ended calls that Redis has not heard of yet",
            now.unsettled_calls,
        ),
        (
            "sluice_limiter_away",
            "1 while Redis is away and limits are this gateway's own",
            now.limiter_is_away,
        ),
        (
            "sluice_redis_memory_ratio",
            "Share of Redis' memory in use; flex calls are shed from 0.6 on",
            now.redis_filled,
        ),
        (
            "sluice_spool_unconfirmed_bytes",
            "Bytes of the spool that the ledger has not confirmed",
            now.spool_bytes,
        ),
        ("sluice_loop_lag_seconds", "The worst delay of the event loop of late", now.loop_lag_s),
        (
            "sluice_fleet_age_seconds",
            "Seconds since the controller published the replicas",
            now.fleet_age_s,
        ),
        ("sluice_policy_version", "The routing policy that runs here", now.policy_version),
        (
            "sluice_policy_broken",
            "1 while the active routing policy cannot be run here and an older one stays",
            now.policy_is_broken,
        ),
        (
            "sluice_quality_version",
            "The learned quality that decisions read here, 0 where there is none",
            now.quality_version,
        ),
        (
            "sluice_quality_broken",
            "1 while the active learned quality cannot be read here and an older one stays",
            now.quality_is_broken,
        ),
    ):
        yield GaugeMetricFamily(name, words, value)
    waiting = GaugeMetricFamily(
        "sluice_waiting_calls", "Calls that this gateway holds for a worker", labels=("pool",)
    )
    for pool, count in now.waiting.items():
        waiting.add_metric((pool,), count)
    replicas = GaugeMetricFamily(
        "sluice_replicas", "Replicas, as the controller published them", labels=("pool", "state")
    )
    for where, count in now.replicas.items():
        replicas.add_metric(where, count)
    pools = GaugeMetricFamily(
        "sluice_pool_info",
        "1 for each pool: what it serves, and whether its GPUs are simulated",
        labels=("pool", "model", "simulated"),
    )
    for name, each in now.pools.items():
        pools.add_metric((name, each.model, str(each.is_simulated).lower()), 1)
    nodes = GaugeMetricFamily(
        "sluice_nodes",
        "Nodes, as the controller published them",
        labels=("type", "market", "zone", "state"),
    )
    for what, count in now.nodes.items():
        nodes.add_metric(what, count)
    spares = GaugeMetricFamily(
        "sluice_spares",
        "Processes that have imported everything and hold no model, by the type of their node",
        labels=("type",),
    )
    for type, count in now.spares.items():
        spares.add_metric((type,), count)
    epoch = GaugeMetricFamily(
        "sluice_controller_epoch",
        "Of the controller that published last: each one that begins to lead has a higher one",
        value=now.controller_epoch,
    )
    yield from (waiting, replicas, pools, nodes, spares, epoch)
