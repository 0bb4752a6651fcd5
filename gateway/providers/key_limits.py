"""How much of each key is in use: calls at a time, and calls and tokens over the last minute.

Each gateway admits its part of a limit, so that all together admit no more than the limit, and no
call waits for the others to say. Guards the law that no 60 seconds have more than the limit.
"""

from collections import deque
from collections.abc import Callable
from math import inf

from gateway.providers.key import ProviderKey
from routing.types import Clock

OVER_S = 61
"""After its beginning the whole of a second is a minute ago."""
FULL_S = 0.25
"""Until it is looked again whether a call of a key has ended that has its most at a time."""


class _Use:
    """Of one key, in whole seconds."""

    __slots__ = ("open", "seconds")

    def __init__(self) -> None:
        self.open = 0
        self.seconds: deque[list[int]] = deque()
        """The second, and the calls and tokens that began in it."""


class OpenKey:
    """One attempt with a key, counted until it is closed."""

    __slots__ = ("_use",)

    def __init__(self, use: _Use) -> None:
        self._use: _Use | None = use
        use.open += 1

    def computed(self, meter: object) -> None:
        """Its first token is here: that changes nothing."""

    def close(self) -> None:
        if self._use is not None:
            self._use.open -= 1
            self._use = None


class KeyLimits:
    def __init__(self, clock: Clock, gateways: Callable[[], int]) -> None:
        self._clock = clock
        self._gateways = gateways
        self._uses: dict[str, _Use] = {}

    def in_flight(self, name: str) -> int:
        use = self._uses.get(name)
        return 0 if use is None else use.open

    def open(self, key: ProviderKey, tokens: int) -> OpenKey:
        use = self._uses.setdefault(key.name, _Use())
        if key.requests_per_minute or key.tokens_per_minute:
            second = int(self._clock())
            if not use.seconds or use.seconds[-1][0] < second:
                use.seconds.append([second, 0, 0])
            use.seconds[-1][1] += 1
            use.seconds[-1][2] += tokens
        return OpenKey(use)

    def wait_s(self, key: ProviderKey, tokens: int) -> float:
        """Seconds until the limits of a key let a call through. 0: now. A call that is larger than
        a limit goes alone: whether it is too large its provider says."""
        use = self._uses.get(key.name)
        if use is None or not key.has_limits:
            return 0.0
        if key.concurrent is not None and use.open >= self._part(key.concurrent):
            return FULL_S
        now_s = self._clock()
        while use.seconds and use.seconds[0][0] + OVER_S <= now_s:
            use.seconds.popleft()
        calls_max, tokens_max = map(self._most, (key.requests_per_minute, key.tokens_per_minute))
        calls = sum([each[1] for each in use.seconds])
        taken = sum([each[2] for each in use.seconds])
        wait_s = 0.0
        for second, its_calls, its_tokens in use.seconds:
            if calls < calls_max and (not taken or taken + tokens <= tokens_max):
                break
            calls, taken = calls - its_calls, taken - its_tokens
            wait_s = second + OVER_S - now_s
        return wait_s

    def _most(self, limit: int | None) -> float:
        return inf if limit is None else self._part(limit)

    def _part(self, limit: int) -> int:
        return max(1, limit // max(1, self._gateways()))
