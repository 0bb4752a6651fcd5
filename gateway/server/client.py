"""The caller's end of one exchange: it may leave, or stop reading. The one place where either is
noticed. How much is buffered for a reader that is slow is the server's bound: `send` waits there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Self

from gateway.server.listener import BODY, HANG_UP, LEAVING, PIECE, WHOLE
from routing.types import Clock

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Departure(StrEnum):
    """Why a call goes on without its client, or ends; the word that stands in its record."""

    CLOSED = "client_closed_request"
    SLOW = "slow_reader"


class Client:
    """`watch` looks after how long it takes to read; who takes too long is hung up on.

    As a block it cancels the task that runs in it once the client departs.
    """

    def __init__(
        self,
        scope: Mapping[str, Any],
        receive: Receive,
        send: Send,
        *,
        watch: "Watch",
    ) -> None:
        self.receive = receive
        self._scope = scope
        self._extensions: Mapping[str, Any] = scope.get("extensions") or {}
        self.has_begun = False
        self.departure: Departure | None = None
        self._departed_s = 0.0
        self._send = send
        self._watch = watch
        self._sending_since_s: float | None = None
        self._has_all = False
        self._work: asyncio.Task[Any] | None = None
        self._cancels = 0
        self._gone: asyncio.Future[Message] | None = None

    async def send(self, message: Message) -> None:
        self.has_begun = True
        self._has_all = not message.get("more_body", True)
        self._sending_since_s = self._watch.clock()
        await self._send(message)
        self._sending_since_s = None

    def has_left(self, status: int, head: bytes, body: bytes) -> bool:
        """An answer in one piece, if the server took it so. Else it is for `send`."""
        extension = self._extensions.get(WHOLE)
        if extension is None or not extension["has_left"](self._scope, status, head, body):
            return False
        self.has_begun = self._has_all = True
        return True

    def piece_has_left(self, piece: bytes) -> bool:
        """Some of a stream that has begun, likewise."""
        extension = self._extensions.get(PIECE)
        return extension is not None and bool(extension["has_left"](self._scope, piece))

    def __enter__(self) -> Self:
        self._work = asyncio.current_task()
        leaving = self._extensions.get(LEAVING)
        if leaving is not None:
            leaving["tell"](self._hung_up)
        else:
            self._gone = asyncio.ensure_future(self.receive())
            self._gone.add_done_callback(self._received)
        self._watch.add(self)
        return self

    def __exit__(self, *raised: object) -> None:
        self._work = None
        leaving = self._extensions.get(LEAVING)
        if leaving is not None:
            leaving["forget"](self._hung_up)
        if self._gone is not None:
            self._gone.cancel()
        self._watch.remove(self)

    def forgive(self) -> None:
        """The task that was cancelled for its client's departure has ended its work."""
        task = asyncio.current_task() if self._cancels else None
        if task is not None:
            for _ in range(self._cancels):
                task.uncancel()

    def _received(self, departure: asyncio.Future[Message]) -> None:
        if not departure.cancelled():
            self._hung_up()

    def _hung_up(self) -> None:
        """A server says the same of a client that has its whole answer."""
        if not self._has_all:
            self._depart(Departure.CLOSED)

    def look(self) -> None:
        """Of a client that has departed the end is asked for again: see `billing/tasks.py`. Not at
        once: an answer that is paid for already may be seen through to its price."""
        if self.departure is not None:
            if self._watch.clock() - self._departed_s >= self._watch.every_s:
                self._ask(self.departure)
        elif self._is_stuck and self._work is not None:
            self.hang_up()
            self._depart(Departure.SLOW)

    def _depart(self, why: Departure) -> None:
        if self._work is not None and self.departure is None:
            self.departure = why
            self._departed_s = self._watch.clock()
            self._ask(why)

    def _ask(self, why: Departure) -> None:
        if self._work is not None:
            self._cancels += 1
            self._work.cancel(why)

    async def left_before(self, work: asyncio.Task[None]) -> Departure | None:
        """Wait for the work; why its client will not have the rest of it, or None if it is done."""
        departure = asyncio.ensure_future(self.receive())
        try:
            while not work.done():
                done, _ = await asyncio.wait(
                    {work, departure},
                    timeout=self._watch.every_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if departure in done:
                    return Departure.CLOSED
                if self._is_stuck:
                    self.hang_up()
                    return Departure.SLOW
        finally:
            departure.cancel()
        return None

    def hang_up(self) -> None:
        """Where the server can; what is buffered for the client goes with the connection."""
        extension = self._extensions.get(HANG_UP)
        if extension is not None:
            extension["now"]()

    def body_at_once(self) -> bytes | None:
        """All of the body, unread before, if it is here and the server can say so."""
        extension = self._extensions.get(BODY)
        return None if extension is None else extension["whole"](self._scope)

    @property
    def _is_stuck(self) -> bool:
        since_s = self._sending_since_s
        return since_s is not None and self._watch.clock() - since_s >= self._watch.slow_timeout_s


class Watch:
    """Looks now and then at all clients of some routes, instead of by a timer for each.
    `slow_timeout_s` is how long one message may wait until its client has read enough."""

    def __init__(self, slow_timeout_s: float, clock: Clock) -> None:
        self.slow_timeout_s = slow_timeout_s
        self.clock = clock
        self._clients: set[Client] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def every_s(self) -> float:
        return self.slow_timeout_s / 4

    def add(self, client: Client) -> None:
        self._clients.add(client)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.every_s, self._look)

    def remove(self, client: Client) -> None:
        self._clients.discard(client)

    def _look(self) -> None:
        self._timer = None
        for client in list(self._clients):
            client.look()
        if self._clients:
            self._timer = asyncio.get_running_loop().call_later(self.every_s, self._look)
