"""Whether an answer moves whose replica is about to end, and when. Pure.

What can finish in time does. The others move late, since many answers are shorter than they may
be, and spread over time, since all of them at once would be a stampede. Serve ends a replica only
once another one runs in its place. So where no other replica is warm they stay until their node
ends, and leave it at the last moment all the same.
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Generic, NamedTuple, TypeVar

MARGIN_S = 1.0
"""Between the last moves and the end of a replica: so far two clocks and two looks may differ."""
MARGIN_SHARE = 0.25
"""The most of a short time that the margin takes."""
SPREAD_S = 10.0
"""So long before the last moment the moves begin,"""
SPREAD_SHARE = 0.5
"""or for this share of the time that there is."""
Name = TypeVar("Name")


class Leaving(NamedTuple):
    """A replica whose node ends at `node_ends_s`, as was heard at `since_s`. Where another replica
    runs it may end at `ends_s`."""

    since_s: float
    ends_s: float
    node_ends_s: float

    @property
    def last_s(self) -> float:
        """When the last answers move for which there is a place."""
        return self._before(self.ends_s)

    @property
    def node_last_s(self) -> float:
        """When all that are left leave it."""
        return max(self.last_s, self._before(self.node_ends_s))

    def _before(self, ends_s: float) -> float:
        return ends_s - min(MARGIN_S, MARGIN_SHARE * max(0.0, ends_s - self.since_s))

    @property
    def first_s(self) -> float:
        """When the first answers move for which there is a place."""
        time_s = max(0.0, self.last_s - self.since_s)
        return self.last_s - min(SPREAD_S, SPREAD_SHARE * time_s)


class OpenAnswer(NamedTuple, Generic[Name]):
    """`tokens_left` at most. `tokens_per_s` is measured; 0 before anything came. `has_place`:
    another replica is warm."""

    name: Name
    tokens_left: int
    tokens_per_s: float
    has_place: bool

    @property
    def remaining_s(self) -> float:
        if not self.tokens_left:
            return 0.0
        return self.tokens_left / self.tokens_per_s if self.tokens_per_s > 0 else inf


def moves_now(
    answers: Sequence[OpenAnswer[Name]], leaving: Leaving, now_s: float, every_s: float
) -> list[Name]:
    """Those of all answers of a replica that move at this look, the longest first. The next look
    is `every_s` later."""
    if now_s < leaving.first_s:
        return []
    left_s = max(0.0, leaving.last_s - now_s)
    too_long = [each for each in answers if each.remaining_s > left_s]
    too_long.sort(key=lambda each: each.remaining_s, reverse=True)
    if now_s >= leaving.node_last_s:
        return [each.name for each in too_long]
    ready = [each.name for each in too_long if each.has_place]
    looks_left = max(1, int(left_s / every_s))
    return ready[: ceil(len(too_long) / looks_left)]
