"""When to stop asking a Redis that does not answer, and when to try it again.

Pure arithmetic over a clock. After `failures_max` failures in a row, or one silence of the longest
length, nothing is asked for `open_s`. Then one question at a time is let through, until one is
answered. So a Redis that hangs costs a few callers its time limit, and all others nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from billing.limits.types import NotAsked


@dataclass(frozen=True, slots=True)
class BreakerSettings:
    failures_max: int = 5
    open_s: float = 2.0


class Breaker:
    """`clock` is in seconds. Only differences count, and where it goes back a wait begins anew.
    `changed` is called with True when Redis begins to count as away, and with False when it ceases
    to."""

    def __init__(
        self,
        settings: BreakerSettings,
        clock: Callable[[], float],
        on_change: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._changed = on_change
        self._failures = 0
        self._closed_from_s: float | None = None
        self.openings = 0

    @property
    def is_open(self) -> bool:
        """Whether Redis counts as away."""
        return self._closed_from_s is not None

    @property
    def wait_s(self) -> float:
        """How long until a question may be asked again."""
        if self._closed_from_s is None:
            return 0.0
        left_s = self._closed_from_s - self._clock()
        if left_s > self._settings.open_s:  # the clock was put back
            self._close_for_others()
            return self._settings.open_s
        return max(0.0, left_s)

    def ask(self) -> None:
        """Announce a question. Raises NotAsked where none may be asked."""
        if self._closed_from_s is None:
            return
        if self.wait_s > 0:
            raise NotAsked("redis did not answer of late")
        self._close_for_others()

    def answered(self) -> None:
        self._failures = 0
        if self._closed_from_s is not None:
            self._closed_from_s = None
            self._changed(False)

    def failed(self) -> None:
        """Count a question without an answer: the connection ended, or there was none."""
        self._failures += 1
        if self._failures >= self._settings.failures_max:
            self.silent()

    def silent(self) -> None:
        """Close for a while: a question waited for the longest time without an answer."""
        is_news = not self.is_open
        self._close_for_others()
        if is_news:
            self.openings += 1
            self._changed(True)

    def _close_for_others(self) -> None:
        self._closed_from_s = self._clock() + self._settings.open_s
