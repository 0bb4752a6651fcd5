"""One connection to Redis for the scripts of every call, pipelined.

Replies come in the order of the questions, and all that is asked in one turn of the event loop
leaves together at its end: a whole turn is one write and one read. The connection is made by the
client library (addresses, TLS and authentication are its business) and taken over from it.

Bounded in time: a Redis that leaves the oldest question in flight unanswered for `timeout_s` fails
all of them. Its time begins when the question is sent: neither a turn of this process that takes
long nor a queue of questions is an outage. `IN_FLIGHT_MAX` are in flight at most; the others wait
their turn, as many as there are callers, and none is sent whose caller has left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from billing.limits.shared import Shared

_NOTHING = object()
IN_FLIGHT_MAX = 128
"""So many of the dearest script take Redis a few milliseconds: far less than any bound in time, and
enough for it to be always busy."""
GRACE_S = 0.005
"""After its time is up a reply is looked for once more: it may lie unread, where it is this process
that was late."""


class NotSent(RedisTimeoutError):
    """Redis hangs on the questions of others, and this one never left."""


class Link:
    """Connects when it is first asked, and again after every break; closed with `redis`."""

    def __init__(self, redis: Redis, *, timeout_s: float) -> None:
        self._pool: Any = redis.connection_pool
        self._timeout_s = timeout_s
        self._wire: _Wire | None = None
        self._connected = Shared(self._connect)

    async def ask(self, command: bytes) -> Any:
        """The reply to a packed command that may safely be repeated.

        Raises a RedisError or an OSError; whether Redis did it is unknown then. A connection that
        broke is replaced once.
        """
        try:
            return await (self._usable() or await self._connected()).ask(command)
        except RedisConnectionError:
            try:
                return await (self._usable() or await self._connected()).ask(command)
            except NotSent as now:  # the first time it may have been
                raise RedisTimeoutError(str(now)) from now

    def _usable(self) -> _Wire | None:
        wire = self._wire
        return wire if wire is not None and wire.is_up(asyncio.get_running_loop()) else None

    async def _connect(self) -> _Wire:
        """Once more where it was this process that had no time for it."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + self._timeout_s
        try:
            return await self._connect_in_time()
        except TimeoutError:
            if loop.time() < due_s + GRACE_S:
                raise
            return await self._connect_in_time()

    async def _connect_in_time(self) -> _Wire:
        async with asyncio.timeout(self._timeout_s):
            broken, self._wire = self._wire, None
            if broken is not None:
                await broken.give_back(self._pool)
            self._wire = wire = _Wire(await self._pool.get_connection(), self._timeout_s)
            return wire


class _Wire(asyncio.Protocol):
    """Questions on one connection, which stays on loan from the library's pool. `_waiting` are
    those in flight, each with the time it left; `_unsent` those that come after them."""

    def __init__(self, connection: Any, timeout_s: float) -> None:
        self._connection = connection
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = connection._writer.transport
        self._former = connection._writer.transport.get_protocol()
        self._reader: Any = hiredis.Reader(replyError=_error, notEnoughData=_NOTHING)
        self._unsent: deque[tuple[asyncio.Future[Any], bytes]] = deque()
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._is_late = False
        connection._writer.transport.set_protocol(self)

    def is_up(self, loop: asyncio.AbstractEventLoop) -> bool:
        transport = self._transport
        return self._loop is loop and transport is not None and not transport.is_closing()

    async def ask(self, command: bytes) -> Any:
        if self._transport is None:
            raise RedisConnectionError("the connection is closed")
        reply: asyncio.Future[Any] = self._loop.create_future()
        if not self._unsent and len(self._waiting) < IN_FLIGHT_MAX:
            self._loop.call_soon(self._send)
        self._unsent.append((reply, command))
        return await reply

    def _send(self) -> None:
        """What there is room for. Called at the end of a turn with questions, and when replies have
        come."""
        if self._transport is None:
            return
        unsent, waiting, commands = self._unsent, self._waiting, []
        now_s = self._loop.time()
        while unsent and len(waiting) < IN_FLIGHT_MAX:
            reply, command = unsent.popleft()
            if not reply.done():
                waiting.append((reply, now_s))
                commands.append(command)
        if commands:
            self._transport.write(b"".join(commands))
            if self._watch is None:
                self._watch = self._loop.call_later(self._timeout_s, self._look)

    async def give_back(self, pool: Any) -> None:
        """The pool connects it anew when it is next asked for one."""
        self._break(RedisConnectionError("the connection was closed"))
        await self._connection.disconnect(nowait=True)
        await pool.release(self._connection)

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (said := self._reader.gets()) is not _NOTHING:
                self._answer(said)
            if self._unsent:
                self._send()
        except (hiredis.ProtocolError, IndexError) as nonsense:
            self._break(RedisConnectionError(f"redis talks nonsense: {nonsense}"))

    def eof_received(self) -> None:
        self._former.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._former.connection_lost(error)  # the library waits for it when it closes
        self._break(RedisConnectionError(str(error or "redis closed the connection")))

    # --- ends ------------------------------------------------------------------------------------

    def _answer(self, said: object) -> None:
        reply, _ = self._waiting.popleft()
        if reply.done():
            return  # whoever asked has left
        if isinstance(said, Exception):
            reply.set_exception(said)
        else:
            reply.set_result(said)

    def _look(self) -> None:
        """Now and then, instead of a timer for each question."""
        self._watch = None
        if not self._waiting:
            self._is_late = False
            return
        left_s = self._waiting[0][1] + self._timeout_s - self._loop.time()
        if left_s > 0:
            self._is_late = False
            self._watch = self._loop.call_later(left_s, self._look)
        elif not self._is_late:
            self._is_late = True
            self._watch = self._loop.call_later(GRACE_S, self._look)
        else:
            self._break(RedisTimeoutError("redis did not answer in time"))

    def _break(self, error: Exception) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        _fail(self._waiting, error)
        _fail(self._unsent, _not_sent(error))


def _fail(asked: deque[tuple[asyncio.Future[Any], Any]], error: Exception) -> None:
    while asked:
        reply, _ = asked.popleft()
        if not reply.done():
            reply.set_exception(error)


def _not_sent(error: Exception) -> Exception:
    return NotSent(str(error)) if isinstance(error, RedisTimeoutError) else error


def _error(message: str) -> Exception:
    kind = NoScriptError if message.startswith("NOSCRIPT") else ResponseError
    return kind(message)
