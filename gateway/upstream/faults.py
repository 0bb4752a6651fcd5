"""The faults of servers outside, as operators see them: counted, logged now and then, remembered.

Told of each failed attempt, never of one that answers: this costs a call that is served nothing.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.upstream.answer import Rejected, UpstreamError
from gateway.upstream.fault import Fault
from routing.types import Clock

log = logging.getLogger(__name__)

LOG_EVERY_S = 60.0
"""Of one pool and status: one line in that time, which counts those that had none."""
SERIES_MAX = 1_000
"""Pairs of pool and status; what comes beyond them is counted as `other`."""
OTHER = "other"

PoolAndStatus = tuple[str, str]


@dataclass(slots=True)
class _Line:
    """When a pair may be logged again, and how often it came since it was."""

    again_s: float = 0.0
    unsaid: int = 0


@dataclass(frozen=True, slots=True)
class LastFault:
    """The newest fault of a pool."""

    at_s: float
    fault: Fault


class Faults:
    """`counts` by pool and status, `last` by pool."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[PoolAndStatus] = Counter()
        self._lines: dict[PoolAndStatus, _Line] = {}
        self._last: dict[str, LastFault] = {}

    @property
    def counts(self) -> Mapping[PoolAndStatus, int]:
        return self._counts

    @property
    def last(self) -> Mapping[str, LastFault]:
        return self._last

    def add(self, pool: str, failed: UpstreamError) -> None:
        """A call that is itself at fault is counted, and is no news of its server."""
        if failed.fault is None:
            return
        pair = self._pair(pool, failed.fault.label)
        self._counts[pair] += 1
        if not isinstance(failed, Rejected):
            self._last[pair[0]] = LastFault(self._clock(), failed.fault)
            self._log(pair, failed.fault)

    def _pair(self, pool: str, status: str) -> PoolAndStatus:
        pair = pool, status
        if pair not in self._counts and len(self._counts) >= SERIES_MAX:
            return OTHER, OTHER
        return pair

    def _log(self, pair: PoolAndStatus, fault: Fault) -> None:
        line = self._lines.setdefault(pair, _Line())
        now_s = self._clock()
        if now_s < line.again_s:
            line.unsaid += 1
            return
        more = f" ({line.unsaid} more like it before)" if line.unsaid else ""
        line.again_s, line.unsaid = now_s + LOG_EVERY_S, 0
        log.warning("pool %s: %s%s", pair[0], words_of(fault), more)


def words_of(fault: Fault) -> str:
    """One line: `its server answered 401: {"error": ...}`."""
    if fault.status is None:
        return f"its server gave no answer: {fault.detail}"
    return f"its server answered {fault.status}: {fault.detail or 'without a word'}"
