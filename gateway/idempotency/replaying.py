"""The other side of a key: an answer that runs, or has run, is told again to who asks once more.

Follows the tape from its beginning: what has left already at once, the rest as it comes. A tape
that has no end, and will not get one, ends in an error that names the request and its charge.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from billing.money import usd
from gateway.errors import ApiError, overloaded
from gateway.idempotency.fate import Fates
from gateway.idempotency.key import Keyed
from gateway.idempotency.tape import HAS_NO_REST, Player, TapeState
from gateway.idempotency.tapes import Tapes, TapesUnavailable

Send = Callable[[dict[str, Any]], Awaitable[None]]

RETRY_S = 1.0
"""Who follows leaves when the followed call ends, whose length nobody knows; Redis that is away is
looked for as often."""


class Replaying:
    """At most `followers_max` at once; each looks for news every `poll_s` seconds."""

    def __init__(self, tapes: Tapes, fates: Fates, *, poll_s: float, followers_max: int) -> None:
        self._tapes = tapes
        self._fates = fates
        self._poll_s = poll_s
        self._followers_max = followers_max
        self.followers = 0

    async def follow(self, keyed: Keyed, request_id: str, player: Player, send: Send) -> None:
        """Play the tape to its end. Raises ApiError; `player` knows whether anything has left."""
        with self._counted():
            start = 0
            while not player.has_ended:
                state, parts = await self._look(keyed, request_id, start)
                start += len(parts)
                for message in player.play(parts):
                    await send(message)
                if not parts:
                    await self._wait(keyed, request_id, state)

    async def _look(
        self, keyed: Keyed, request_id: str, start: int
    ) -> tuple[TapeState, list[bytes]]:
        try:
            return await self._tapes.read(keyed, request_id, start)
        except TapesUnavailable as away:
            raise overloaded("The answer kept is out of reach.", RETRY_S) from away

    async def _wait(self, keyed: Keyed, request_id: str, state: TapeState) -> None:
        if state is TapeState.TOO_LARGE:
            raise too_large(request_id)
        if state in HAS_NO_REST:
            charged = await self._fates.charged_nanousd(request_id, keyed.organization)
            raise lost(request_id, charged)
        await asyncio.sleep(self._poll_s)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self.followers >= self._followers_max:
            raise overloaded("Too many calls are following others already.", RETRY_S)
        self.followers += 1
        try:
            yield
        finally:
            self.followers -= 1


def lost(request_id: str, charged_nanousd: int) -> ApiError:
    """Terminal: the call does not run again under this key."""
    cost = usd(charged_nanousd)
    return ApiError(
        502,
        f"The gateway that ran {request_id} was lost before the answer was complete; {cost} USD "
        "were charged for what had been generated. Send a new Idempotency-Key to ask again.",
        type="server_error",
        code="idempotent_run_lost",
        stop_retrying=True,
        extra_headers={"x-sluice-cost-usd": cost},
    )


def too_large(request_id: str) -> ApiError:
    return ApiError(
        410,
        f"The answer of {request_id} is too large to be replayed. It was made and charged once; "
        "send a new Idempotency-Key to ask again.",
        code="idempotent_answer_too_large",
        stop_retrying=True,
    )
