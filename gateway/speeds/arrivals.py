"""How many calls of each model came in the last hour, at all gateways together.

Counted in Redis in bins of five minutes, beside the calls: no call waits for it. Without Redis a
gateway goes on with what it read last, and with its own calls.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from routing.economics.rates import Occurrences
from routing.types import Clock

log = logging.getLogger(__name__)

ARRIVALS_KEY: Final = "sluice:arrivals"
BIN_S: Final = 300
BINS: Final = 12
EVERY_S: Final = 10.0
SINCE: Final = ""
"""The field of a bin that has since when it is counted in, in milliseconds. No model is so
named."""


def arrivals_key(bin_: int) -> str:
    return f"{ARRIVALS_KEY}:{bin_}"


class Arrivals:
    def __init__(self, redis: Redis, clock: Clock) -> None:
        self._redis = redis
        self._clock = clock
        self._unshared: Counter[str] = Counter()
        self._shared: dict[int, Counter[str]] = {}
        self._since_s: dict[int, float] = {}
        self._looked_s = clock()

    def add(self, model: str) -> None:
        """A call of this model was admitted."""
        self._unshared[model] += 1

    def of(self, model: str) -> Occurrences:
        now_s = self._clock()
        bins = _bins(now_s)
        count = sum(each[model] for bin_, each in self._shared.items() if bin_ in bins)
        watched_s = [
            min(now_s, (bin_ + 1) * BIN_S) - since_s
            for bin_, since_s in self._since_s.items()
            if bin_ in bins
        ]
        return Occurrences(count + self._unshared[model], max(0.0, sum(watched_s)))

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Share what came here, and read what came everywhere."""
        now_s = self._clock()
        bins, unshared = _bins(now_s), self._unshared
        since_s = max(self._looked_s, bins[-1] * BIN_S)
        self._since_s.setdefault(bins[-1], since_s)
        self._looked_s, self._unshared = now_s, Counter()
        missing = [bin_ for bin_ in bins if bin_ not in self._shared or bin_ >= bins[-2]]
        try:
            answers = await self._exchanged(unshared, missing, bins[-1])
        except RedisError as away:
            log.warning("arrivals at other gateways cannot be read: %s", away)
            self._unshared += unshared
            return
        for bin_, counts in zip(missing, answers, strict=True):
            self._hear(bin_, counts)
        for known in (self._shared, self._since_s):
            for gone in known.keys() - set(bins):
                known.pop(gone)

    async def _exchanged(
        self, unshared: Mapping[str, int], missing: Sequence[int], now: int
    ) -> list[Mapping[bytes, bytes]]:
        key, since_ms = arrivals_key(now), round(self._since_s[now] * 1000)
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.hsetnx(key, SINCE, str(since_ms))
        for model, count in unshared.items():
            pipeline.hincrby(key, model, count)
        pipeline.expire(key, (BINS + 1) * BIN_S)
        for bin_ in missing:
            pipeline.hgetall(arrivals_key(bin_))
        answers: list[Any] = await pipeline.execute()
        return answers[-len(missing) :]

    def _hear(self, bin_: int, answer: Mapping[bytes, bytes]) -> None:
        counts = {name.decode(): int(count) for name, count in answer.items()}
        since_ms = counts.pop(SINCE, None)
        self._shared[bin_] = Counter(counts)
        if since_ms is not None:
            since_s = since_ms / 1000
            self._since_s[bin_] = min(since_s, self._since_s.get(bin_, since_s))


def _bin(at_s: float) -> int:
    return int(at_s // BIN_S)


def _bins(now_s: float) -> range:
    """Of the last hour; the one that runs now is the last."""
    return range(_bin(now_s) - BINS + 1, _bin(now_s) + 1)
