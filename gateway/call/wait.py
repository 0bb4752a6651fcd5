"""The last wait of a call for a place at a worker: how often it was decided anew, and what came of
it. A call that never waits has none."""

from enum import StrEnum

import msgspec

from billing.types import Route


class WaitEnd(StrEnum):
    """What the last of its decisions came to. A call whose caller left has none."""

    PLACE = "place"
    """It stayed, and its pool had a place for it."""
    BETTER = "better"
    """It left for a pool that had a place and was better than going on waiting."""
    BLOCKED = "blocked"
    """It left, for its pool could not start."""
    DEADLINE = "deadline"
    """It stayed until its time was over."""


class PlaceWait(msgspec.Struct):
    pool: str
    redecisions: int = 0
    """In all waits of the call."""
    end: WaitEnd | None = None

    def of(self, route: Route) -> Route:
        """The route with this wait in it."""
        end = None if self.end is None else self.end.value
        return msgspec.structs.replace(
            route, wait_pool=self.pool, redecisions=self.redecisions, wait_end=end
        )
