"""Calls at once: how many of this gateway's are open under each limit of them, and how long such
calls last, which says when a slot may be free.

Pure bookkeeping over a clock that is handed in. A call counts under every scope that limits calls
at once, from its admission to its end. Of `slots` calls that last `D` on average one ends every
`D / slots`; `D` is a moving average, and at least what the open ones have lasted so far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from billing.limits.types import Dimension, Refused, ScopeLimits

WEIGHT = 0.2
"""Of the latest call in the average."""
FIRST_GUESS_S = 1.0
WAIT_S_MIN, WAIT_S_MAX = 0.05, 60.0
REMEMBERED_MAX = 10_000
"""Scopes whose average is kept, beside those with open calls."""


@dataclass(slots=True)
class _Scope:
    open: int = 0
    began_s: float = 0.0
    """Summed over the open ones."""
    lasting_s: float | None = None


class Slots:
    def __init__(self) -> None:
        self._scopes: dict[str, _Scope] = {}

    def enter(self, scopes: Iterable[ScopeLimits], now_s: float) -> None:
        for limits in scopes:
            if limits.concurrency is not None:
                counts = self._scopes.get(limits.scope) or self._begin(limits.scope)
                counts.open += 1
                counts.began_s += now_s

    def leave(self, scopes: Iterable[ScopeLimits], began_s: float, now_s: float) -> None:
        """`began_s` is when the call entered."""
        lasted_s = max(0.0, now_s - began_s)
        for limits in scopes:
            if limits.concurrency is not None:
                counts = self._scopes[limits.scope]
                counts.open -= 1
                counts.began_s = counts.began_s - began_s if counts.open else 0.0
                before_s = lasted_s if counts.lasting_s is None else counts.lasting_s
                counts.lasting_s = before_s + WEIGHT * (lasted_s - before_s)

    def open_in(self, scope: str) -> int:
        counts = self._scopes.get(scope)
        return counts.open if counts else 0

    def wait_s(self, scope: str, slots: int, now_s: float) -> float:
        """When one of `slots` calls of a scope will have ended, as they have lasted of late. Where
        there may be none at all, nobody knows, and it is long."""
        if slots <= 0:
            return WAIT_S_MAX
        counts = self._scopes.get(scope) or _Scope()
        lasting_s = FIRST_GUESS_S if counts.lasting_s is None else counts.lasting_s
        if counts.open:
            lasting_s = max(lasting_s, now_s - counts.began_s / counts.open)
        return slot_s(lasting_s, slots)

    def with_wait(self, answer: Refused, scopes: Iterable[ScopeLimits], now_s: float) -> Refused:
        """The same, with the wait where it is a slot that lacks: Redis counts calls and does not
        know how long they last."""
        if answer.dimension is not Dimension.CONCURRENCY:
            return answer
        limits = next(each for each in scopes if each.scope == answer.scope)
        wait_s = self.wait_s(limits.scope, limits.concurrency or 0, now_s)
        return replace(answer, retry_after_ms=round(wait_s * 1000))

    def _begin(self, scope: str) -> _Scope:
        """Of too many, those that were begun long ago and have nothing open make room."""
        if len(self._scopes) >= REMEMBERED_MAX:
            for name in list(self._scopes)[: REMEMBERED_MAX // 2]:
                if not self._scopes[name].open:
                    del self._scopes[name]
        counts = self._scopes[scope] = _Scope()
        return counts


def slot_s(lasting_s: float, slots: int) -> float:
    """When one of so many calls ends that last so long and began at different times."""
    return min(max(lasting_s / slots, WAIT_S_MIN), WAIT_S_MAX)
