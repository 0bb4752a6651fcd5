"""The runner's side of a key: what leaves for its client is written to the tape as well.

Parts are gathered and written while the next ones are made, so a stream is not slowed down by
Redis; the last one leaves when it is on the tape. Where Redis is away then, the client has it all
the same, and its end is written until the lease is over. The client may go: the answer goes on.
Whatever is not finished when the block is left was cut off, and its key is held by a run without an
end.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from billing.tasks import end
from gateway.idempotency.key import Keyed
from gateway.idempotency.tape import UNKEPT, TapeState, parts_of
from gateway.idempotency.tapes import Becomes, Tapes, TapesUnavailable

log = logging.getLogger(__name__)

Send = Callable[[dict[str, Any]], Awaitable[None]]

LEASE_PARTS = 3
"""A silent runner renews its lease this often while it lasts."""
RETRY_S = 0.25
END_TRIES = 2
"""How often the end is tried to be written before the client has it."""
WITHOUT_ANSWER = tuple(Becomes(state.value) for state in UNKEPT)


class Recording:
    """One run under a key; an `async with` for as long as it runs. Its `send` is the run's."""

    def __init__(self, tapes: Tapes, keyed: Keyed, request_id: str, client: Send) -> None:
        self._tapes = tapes
        self._keyed = keyed
        self._request_id = request_id
        self._client = client
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unwritten: list[bytes] = []
        self._written = 0
        self._bytes = 0
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._ending = Becomes.FINISHED
        self._is_whole = False
        self._has_ended = False

    async def __aenter__(self) -> Self:
        self._writer = asyncio.create_task(self._write_on())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._writer is not None, "a recording is left after it was entered"
        try:
            await end(self._writer)
            if self._is_whole:
                await self._finish_late()
        finally:
            if not self._has_ended:
                await asyncio.shield(self._abandon())

    async def send(self, message: dict[str, Any]) -> None:
        """ASGI's `send`. A client that is gone is passed over."""
        self._take_down(parts_of(message))
        if message["type"] == "http.response.body" and not message.get("more_body"):
            await self._finish()
        else:
            self._news.set()
        if not self._left.done():
            await self._tell(message)

    async def _tell(self, message: dict[str, Any]) -> None:
        """Wait for the client to take it, but not for one that is left meanwhile."""
        telling = asyncio.ensure_future(self._client(message))
        try:
            await asyncio.wait({telling, self._left}, return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
        except OSError:
            self.leave_client()
        finally:
            telling.cancel()

    def _take_down(self, parts: list[bytes]) -> None:
        self._bytes += sum(map(len, parts))
        if (
            self._bytes > self._tapes.settings.answer_bytes_max
            and self._ending not in WITHOUT_ANSWER
        ):
            self._ending = Becomes.TOO_LARGE
        if self._ending in WITHOUT_ANSWER:
            self._unwritten.clear()
        else:
            self._unwritten += parts

    def leave_client(self) -> None:
        """The client is gone, or too slow: the run goes on without it."""
        if not self._left.done():
            self._left.set_result(None)

    def release(self) -> None:
        """What is sent from now on is an error that cost nothing: it is not kept, and whoever
        comes with the key again may run."""
        self._ending = Becomes.RELEASED

    async def _write_on(self) -> None:
        """Write what there is, and renew the lease where there is nothing; until cancelled."""
        renew_every_s = self._tapes.settings.lease_s / LEASE_PARTS
        while True:
            waiting = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait({waiting}, timeout=renew_every_s)
            finally:
                waiting.cancel()
            self._news.clear()
            if not await self._write(self._so_far):
                await asyncio.sleep(RETRY_S)
                self._news.set()

    @property
    def _so_far(self) -> Becomes:
        return self._ending if self._ending in WITHOUT_ANSWER else Becomes.RUNNING

    async def announce(self) -> bool:
        """Tell a Redis that was emptied that this run has its key; False while it is away."""
        return await self._write(self._so_far)

    async def _finish(self) -> None:
        self._is_whole = True
        for _ in range(END_TRIES):
            self._has_ended = self._has_ended or await self._write(self._ending)

    async def _finish_late(self) -> None:
        """For as long as nobody is told that the run was lost."""
        until_s = asyncio.get_running_loop().time() + self._tapes.settings.lease_s
        while not self._has_ended and asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(RETRY_S)
            self._has_ended = await self._write(self._ending)

    async def _write(self, becomes: Becomes) -> bool:
        async with self._writing:
            if self._has_ended:
                return True
            parts = list(self._unwritten)
            try:
                state = await self._tapes.write(
                    self._keyed, self._request_id, becomes, self._written, parts
                )
            except TapesUnavailable as away:
                log.warning("the tape of %s waits: %s", self._request_id, away)
                return False
            self._written += len(parts)
            del self._unwritten[: len(parts)]
            if state in UNKEPT:
                self._ending = Becomes(state.value)
            elif state is TapeState.GONE and becomes is not Becomes.RELEASED:
                log.error("the key of %s is held by another call", self._request_id)
                self._has_ended = True
            return True

    async def _abandon(self) -> None:
        """What was told so far can be told again; there will be no more of it."""
        await self._write(self._so_far)
        try:
            await self._tapes.abandon(self._keyed, self._request_id)
        except TapesUnavailable as away:
            log.warning("the claim of %s ends with its lease: %s", self._request_id, away)
