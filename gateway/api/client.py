"""The caller's end of one exchange: it may leave, or stop reading. The one place where either is
noticed. How much is buffered for a reader that is slow is the server's bound: `send` waits there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any

from gateway.listener import HANG_UP
from routing.types import Clock

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Departure(StrEnum):
    """Why a call goes on without its client, or ends; the word that stands in its record."""

    CLOSED = "client_closed_request"
    SLOW = "slow_reader"


class Client:
    """`slow_timeout_s` is how long one message may wait until the client has read enough; who
    has not is hung up on."""

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Receive,
        send: Send,
        *,
        slow_timeout_s: float,
        clock: Clock,
    ) -> None:
        self.receive = receive
        self._scope = scope
        self._send = send
        self._slow_timeout_s = slow_timeout_s
        self._clock = clock
        self._sending_since_s: float | None = None

    async def send(self, message: Message) -> None:
        self._sending_since_s = self._clock()
        await self._send(message)
        self._sending_since_s = None

    async def left_before(self, work: asyncio.Task[None]) -> Departure | None:
        """Wait for the work; why its client will not have the rest of it, or None if it is done."""
        gone = asyncio.ensure_future(self.receive())
        try:
            while not work.done():
                done, _ = await asyncio.wait(
                    {work, gone},
                    timeout=self._slow_timeout_s / 4,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if gone in done:
                    return Departure.CLOSED
                if self._is_stuck:
                    self._hang_up()
                    return Departure.SLOW
        finally:
            gone.cancel()
        return None

    def _hang_up(self) -> None:
        """Where the server can; what is buffered for the client goes with the connection."""
        extension = self._scope.get("extensions", {}).get(HANG_UP)
        if extension is not None:
            extension["now"]()

    @property
    def _is_stuck(self) -> bool:
        since_s = self._sending_since_s
        return since_s is not None and self._clock() - since_s >= self._slow_timeout_s
