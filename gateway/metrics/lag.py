"""How late the event loop is: what a timer that should have gone off at once waited for.

The worst of the last two windows, so that two who scrape see the same, and no spike is missed
between two scrapes that are not further apart than a window."""

import asyncio
from collections.abc import Callable

LOOK_EVERY_S = 0.25
WINDOW_S = 15.0


class LoopLag:
    """`clock` is the loop's: it never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began_s = clock()
        self._worst_s = 0.0
        self._before_s = 0.0

    @property
    def worst_s(self) -> float:
        return max(self._worst_s, self._before_s)

    async def run(self) -> None:
        while True:
            due_s = self._clock() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self.observe(self._clock() - due_s)

    def observe(self, late_s: float) -> None:
        if self._clock() - self._began_s >= WINDOW_S:
            self._began_s, self._before_s, self._worst_s = self._clock(), self._worst_s, 0.0
        self._worst_s = max(self._worst_s, late_s)
