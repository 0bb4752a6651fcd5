"""How long the last idle replica of a pool stays: ski rental with advice. Pure.

To keep a replica costs by the second. To let it go costs a start, and the time of whoever waits for
it. Whoever keeps it for as long as a start is worth (`start_worth_s`) pays at most twice what the
best choice of hindsight pays. The gaps between calls that were seen so far advise a time. It is
clamped to between half of that worth and twice as much. So it costs less where the gaps go on as
they were, and at most 1 + 1 / TRUST times the best choice whatever comes (Purohit, Svitkina and
Kumar 2018, "Improving online algorithms via ML predictions").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

TRUST: Final = 0.5
GROWTH: Final = 1.25
BINS: Final = 50
"""From one second to about fifteen hours."""
EDGES_S: Final = tuple(GROWTH**place for place in range(BINS))
"""The upper ends of the bins. A longer gap is in the last one."""
GAPS_LEAST: Final = 20.0
"""Fewer gaps advise nothing."""
MEMORY_GAPS: Final = 1_000.0
"""Older gaps are forgotten beyond so many."""

Gaps = tuple[float, ...]
"""How many gaps there were of each bin."""
NO_GAPS: Final[Gaps] = (0.0,) * BINS


@dataclass(frozen=True, slots=True)
class Quiet:
    """The gaps of a pool so far, and since when it is quiet. None: it works, or
    nobody knows since when, as at the first look."""

    gaps: Gaps = NO_GAPS
    since_ms: int | None = None
    begun: int | None = None
    was_busy: bool = False


def after_look(quiet: Quiet, *, at_ms: int, is_busy: bool, begun: int) -> Quiet:
    """One more look. `begun` counts calls on, so that one between two looks ends a gap too."""
    came = quiet.begun is not None and begun > quiet.begun
    gaps = quiet.gaps
    if (is_busy or came) and quiet.since_ms is not None:
        gaps = with_gap(gaps, (at_ms - quiet.since_ms) / 1000)
    if is_busy:
        return Quiet(gaps, None, begun, was_busy=True)
    return Quiet(gaps, at_ms if came or quiet.was_busy else quiet.since_ms, begun)


def with_gap(gaps: Gaps, gap_s: float) -> Gaps:
    """A gap shorter than a second is none: no choice depends on it."""
    if gap_s < 1.0:
        return gaps
    place = next((at for at, edge_s in enumerate(EDGES_S) if gap_s <= edge_s), BINS - 1)
    memory = MEMORY_GAPS / max(MEMORY_GAPS, sum(gaps) + 1)
    return tuple(n * memory + (at == place) for at, n in enumerate(gaps))


def sparse(gaps: Gaps) -> dict[int, float]:
    """The bins that have any, for a document."""
    return {at: round(n, 2) for at, n in enumerate(gaps) if n}


def dense(bins: Mapping[int, float]) -> Gaps:
    return tuple(bins.get(at, 0.0) for at in range(BINS))


def keep_usd_per_s(cost_usd_per_s: float, *, is_reserved: bool) -> float:
    """What it costs to keep an idle replica rather than none. Reserved capacity is paid for either
    way, so nothing is gained where it goes cold before `idle_s`."""
    return 0.0 if is_reserved else cost_usd_per_s


def start_worth_s(start_s: float, replica_per_s: float, wait_per_s: float) -> float | None:
    """For how long a replica costs as much as a start: its own seconds, and those of one caller who
    waits. None: keeping one costs nothing."""
    if replica_per_s <= 0:
        return None
    return start_s * (1 + wait_per_s / replica_per_s)


def keep_s(gaps: Gaps, worth_s: float | None) -> float | None:
    """None where nothing is known: then the time that the operator set holds."""
    if worth_s is None or sum(gaps) < GAPS_LEAST:
        return None
    least_s, most_s = TRUST * worth_s, worth_s / TRUST
    choices = [least_s, worth_s, most_s, *(e for e in EDGES_S if least_s < e < most_s)]
    return min(sorted(choices), key=lambda choice_s: _cost_s(gaps, choice_s, worth_s))


def cost_s(gaps_s: Sequence[float], stay_s: float, worth_s: float) -> float:
    """Seconds of a replica that these gaps cost, a start counted as its worth."""
    return sum(min(gap_s, stay_s) + worth_s * (gap_s > stay_s) for gap_s in gaps_s)


def hindsight_s(gaps_s: Sequence[float], worth_s: float) -> float:
    """The same of whoever knows each gap before."""
    return sum(min(gap_s, worth_s) for gap_s in gaps_s)


def _cost_s(gaps: Gaps, stay_s: float, worth_s: float) -> float:
    return sum(
        n * (min(edge_s, stay_s) + worth_s * (edge_s > stay_s))
        for n, edge_s in zip(gaps, EDGES_S, strict=True)
        if n
    )
