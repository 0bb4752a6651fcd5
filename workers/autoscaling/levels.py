"""How long a pool's calls needed how many replicas, over the last while. Pure.

What chance brings in bursts is not told by a mean. So the time at each level is kept, in a bounded
number of buckets, and a pool has as many replicas as did for all but `SHORT` of the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

BUCKETS: Final = 60
BUCKET_LEAST_MS: Final = 1_000
SHORT: Final = 0.01
"""Of the window, how long more replicas may have been needed than there are."""


@dataclass(frozen=True, slots=True)
class Levels:
    """`usual`: the replicas that did for all but SHORT of the window, as of the last look.
    `buckets`: the number of each, and the milliseconds at each level within it."""

    usual: int = 0
    at_ms: int | None = None
    buckets: tuple[tuple[int, tuple[int, ...]], ...] = ()


NO_LEVELS: Final = Levels()
NO_TIME: Final[tuple[int, ...]] = (0,)


def with_level(levels: Levels, at_ms: int, level: int, window_ms: int) -> Levels:
    """After one more look: the calls needed `level` replicas since the one before."""
    if levels.at_ms is None:
        return replace(levels, at_ms=at_ms)
    bucket_ms = max(BUCKET_LEAST_MS, window_ms // BUCKETS)
    number, took_ms = at_ms // bucket_ms, at_ms - levels.at_ms
    past, now = levels.buckets, NO_TIME
    is_new = not past or past[-1][0] != number
    if is_new:
        oldest = number - max(1, window_ms // bucket_ms)
        past = tuple(each for each in past if each[0] > oldest)
    else:
        past, now = past[:-1], past[-1][1]
    buckets = (*past, (number, _added(now, level, took_ms)))
    usual = levels.usual
    if is_new or level > usual:
        usual = _usual([spent for _, spent in buckets], window_ms)
    return Levels(usual, at_ms, buckets)


def _added(spent: tuple[int, ...], level: int, took_ms: int) -> tuple[int, ...]:
    longer = list(spent) + [0] * (level + 1 - len(spent))
    longer[level] += took_ms
    return tuple(longer)


def _usual(buckets: Sequence[tuple[int, ...]], window_ms: int) -> int:
    above_ms = 0
    for level in range(max(map(len, buckets)) - 1, 0, -1):
        above_ms += sum(spent[level] for spent in buckets if len(spent) > level)
        if above_ms > SHORT * window_ms:
            return level
    return 0
