"""The other side of a key: an answer that runs, or has run, is told again to who asks once more.

Follows the tape from its beginning: what has left already at once, the rest as it comes. A tape
that has no end, and will not get one, ends in an error that names the request and its charge.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gateway.errors import overloaded
from gateway.idempotency.fate import Fates
from gateway.idempotency.key import Keyed
from gateway.idempotency.refusals import RETRY_S, lost, too_late_to_follow, unkept, vanished
from gateway.idempotency.tape import HAS_NO_REST, UNKEPT, Player, TapeState
from gateway.idempotency.tapes import Tapes, TapesUnavailable

Send = Callable[[dict[str, Any]], Awaitable[None]]
SecondsLeft = Callable[[], float]
"""Seconds until the deadline of a call by which its answer has to begin."""


class KeyFree(Exception):
    """Nobody runs the call that was followed, nor will: its key is free."""


class Replaying:
    """At most `followers_max` at once; each looks for news every `poll_s` seconds."""

    def __init__(self, tapes: Tapes, fates: Fates, *, poll_s: float, followers_max: int) -> None:
        self._tapes = tapes
        self._fates = fates
        self._poll_s = poll_s
        self._followers_max = followers_max
        self.followers = 0

    async def follow(
        self, keyed: Keyed, request_id: str, player: Player, send: Send, left_s: SecondsLeft
    ) -> None:
        """Play the tape to its end. Raises ApiError, and KeyFree before anything was played;
        `player` knows whether anything has left."""
        with self._counted():
            start = 0
            while not player.has_ended:
                within_s = math.inf if player.has_begun else left_s()
                if within_s <= 0:
                    raise too_late_to_follow(request_id)
                state, parts = await self._look(keyed, request_id, start, within_s)
                start += len(parts)
                for message in player.play(parts):
                    await send(message)
                if parts:
                    continue
                if state is TapeState.GONE:
                    raise vanished(request_id) if player.has_begun else KeyFree
                if state in UNKEPT:
                    raise unkept(request_id, state)
                if state in HAS_NO_REST:
                    await self._ask_for_fate(keyed, request_id, start, within_s)
                await asyncio.sleep(min(self._poll_s, within_s))

    async def _look(
        self, keyed: Keyed, request_id: str, start: int, within_s: float
    ) -> tuple[TapeState, list[bytes]]:
        try:
            return await self._tapes.read(keyed, request_id, start, within_s)
        except TapesUnavailable as away:
            raise overloaded("The answer that is kept is out of reach.", RETRY_S) from away

    async def _ask_for_fate(
        self, keyed: Keyed, request_id: str, start: int, within_s: float
    ) -> None:
        """Raises ApiError, unless the end has come after all: from a runner that Redis was away
        for."""
        charged = await self._fates.charged_nanousd(request_id, keyed.organization, within_s)
        state, parts = await self._look(keyed, request_id, start, within_s)
        if state in HAS_NO_REST and not parts:
            raise lost(request_id, charged)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self.followers >= self._followers_max:
            raise overloaded("Too many calls are following others already.", RETRY_S)
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1
