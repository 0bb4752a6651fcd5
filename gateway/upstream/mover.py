"""Has answers go on elsewhere before the replicas that give them end.

Looks at all open attempts at such replicas, a few times a second; `gateway/moves/leaving.py` says
which of them move now. Where no node leaves it does nothing.
"""

import asyncio
from collections import defaultdict
from functools import lru_cache

from gateway.catalog.fleet import FleetKeeper
from gateway.moves.leaving import OpenAnswer, moves_now
from gateway.upstream.live import LiveAttempt
from routing.replicas.choice import able
from routing.types import Clock

EVERY_S = 0.1


class Mover:
    def __init__(self, fleet: FleetKeeper, attempts: set[LiveAttempt], clock: Clock) -> None:
        """`attempts` are those that are open, at whatever place."""
        self._fleet = fleet
        self.attempts = attempts
        self._clock = clock

    async def run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)

    def look(self) -> None:
        leaving = self._fleet.leaving
        if not leaving:
            return
        now_s = self._clock()
        has_place = lru_cache(maxsize=None)(self._has_place)
        answers: dict[str, list[OpenAnswer[LiveAttempt]]] = defaultdict(list)
        for attempt in self.attempts:
            if attempt.place_id in leaving:
                of = attempt.candidate
                answer = attempt.standing(now_s, has_place=has_place(of.model, of.variant))
                if answer is not None:
                    answers[attempt.place_id].append(answer)
        for place, each in answers.items():
            is_last = now_s >= leaving[place].node_last_s
            for attempt in moves_now(each, leaving[place], now_s, EVERY_S):
                attempt.interrupt(is_last=is_last)

    def _has_place(self, model: str, variant: str) -> bool:
        """Whether a replica of the same weights is warm that stays."""
        states = self._fleet.snapshot((model,)).pools
        return any(able(state) for state in states if state.pool.variant == variant)
