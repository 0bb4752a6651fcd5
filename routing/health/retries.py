"""How many attempts beyond the first one calls may have together: a bucket of tokens.

Every call puts a share of a token in, every second some, and every further attempt takes one. So an
outage costs the servers behind us little more than the calls themselves. After Finagle's
`RetryBudget`. Pure but for its own count; times are handed in.
"""

from typing import Final

SHARE: Final = 0.1
PER_S: Final = 3.0
BURST: Final = 100.0
"""The most tokens that are saved up, which is what there is at first: a replica that dies has that
many calls whose answers have not begun."""


class RetryBudget:
    """After `calls` in `seconds` no more than `SHARE * calls + PER_S * seconds + BURST` further
    attempts were granted."""

    def __init__(
        self, now_s: float, *, share: float = SHARE, per_s: float = PER_S, burst: float = BURST
    ) -> None:
        self._share = share
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._at_s = now_s

    def called(self) -> None:
        """A call is sent for the first time."""
        self._tokens = min(self._burst, self._tokens + self._share)

    def left(self, now_s: float) -> int:
        """How many more attempts may be made now."""
        self._fill(now_s)
        return int(self._tokens)

    def take(self, now_s: float) -> bool:
        """Whether one more attempt may be made, which is taken then."""
        self._fill(now_s)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _fill(self, now_s: float) -> None:
        passed_s = max(0.0, now_s - self._at_s)
        self._at_s = max(self._at_s, now_s)
        self._tokens = min(self._burst, self._tokens + self._per_s * passed_s)
