"""Redis' clock as this process knows it: what Redis last said, and the seconds that passed since.

Never ahead of Redis, but for what two clocks drift apart in `KNOWN_S`: what is to count until an
instant told here does not count in Redis any more once that instant has passed here.
"""

from collections.abc import Callable

KNOWN_S = 30.0
"""For so long what Redis said is believed: 15 ms of drift, where a clock is being corrected."""


class RedisTime:
    """`tick` is a clock of this process that only goes forward, in seconds."""

    def __init__(self, tick: Callable[[], float]) -> None:
        self._tick = tick
        self._redis_ms = 0
        self._heard_s = float("-inf")

    def note(self, redis_ms: int) -> None:
        """An answer has come, and said what time it was when it was made."""
        self._redis_ms, self._heard_s = redis_ms, self._tick()

    @property
    def is_known(self) -> bool:
        return self._tick() - self._heard_s < KNOWN_S

    def in_ms(self, seconds: float) -> int:
        """The time that it is there in so many seconds."""
        return self._redis_ms + int((self._tick() - self._heard_s + seconds) * 1000)
