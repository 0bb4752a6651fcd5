"""One connection to Redis for the scripts of every call, pipelined.

Replies come in the order of the questions. All questions of one turn of the event loop leave
together at its end, so a whole turn is one write and one read. The client library makes the
connection (addresses, TLS and authentication are its business), and the link takes it over.

Time is bounded. A Redis that says nothing at all for `timeout_s` while questions are in flight
fails all of them. That time is what this process has lived (`silence.py`). So neither a long turn,
nor a queue of questions, nor an answer that is late while others come, is an outage. A connection
that ends fails its questions at once. At most `IN_FLIGHT_MAX` questions are in flight. The others
wait their turn, as many as there are callers. A question whose caller has left is not sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from billing.limits.shared import Shared
from billing.limits.silence import BEATS, Silence, lived

_NOTHING = object()
IN_FLIGHT_MAX = 128
"""So many of the dearest script take Redis a few milliseconds: far less than any bound in time, and
enough for it to be always busy."""


class NotSent(RedisTimeoutError):
    """Redis hangs on earlier questions, and this one was never sent."""


class Link:
    """Connects at its first question, and again after every break. It is closed with `redis`."""

    def __init__(self, redis: Redis, *, timeout_s: float) -> None:
        self._pool: Any = redis.connection_pool
        self._timeout_s = timeout_s
        self._wire: _Wire | None = None
        self._connected = Shared(self._connect)

    async def ask(self, command: bytes) -> Any:
        """The reply to a packed command that may safely be repeated.

        Raises a RedisError or an OSError. It is unknown then whether Redis ran the command. A
        connection that broke is replaced once.
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
        async with lived(self._timeout_s):
            broken, self._wire = self._wire, None
            if broken is not None:
                await broken.give_back(self._pool)
            self._wire = wire = _Wire(await self._pool.get_connection(), self._timeout_s)
            return wire


class _Wire(asyncio.Protocol):
    """Questions on one connection, which stays on loan from the library's pool. `_waiting` has the
    questions in flight, `_unsent` those that come after them."""

    def __init__(self, connection: Any, timeout_s: float) -> None:
        self._connection = connection
        self._look_every_s = timeout_s / BEATS
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = connection._writer.transport
        self._former = connection._writer.transport.get_protocol()
        self._reader: Any = hiredis.Reader(replyError=_error, notEnoughData=_NOTHING)
        self._unsent: deque[tuple[asyncio.Future[Any], bytes]] = deque()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._silence = Silence()
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
        """Send as many questions as there is room for. Called at the end of a turn with questions,
        and when replies have come."""
        if self._transport is None:
            return
        unsent, waiting, commands = self._unsent, self._waiting, []
        while unsent and len(waiting) < IN_FLIGHT_MAX:
            reply, command = unsent.popleft()
            if not reply.done():
                waiting.append(reply)
                commands.append(command)
        if commands:
            self._transport.write(b"".join(commands))
            if self._watch is None:
                self._silence.note()
                self._watch = self._loop.call_later(self._look_every_s, self._look)

    async def give_back(self, pool: Any) -> None:
        """Return the connection to its pool. The pool connects it anew when it next hands it
        out."""
        self._break(RedisConnectionError("the connection was closed"))
        await self._connection.disconnect(nowait=True)
        await pool.release(self._connection)

    # --- asyncio.Protocol ------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._silence.note()
        try:
            self._reader.feed(data)
            while (message := self._reader.gets()) is not _NOTHING:
                self._answer(message)
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

    def _answer(self, message: object) -> None:
        reply = self._waiting.popleft()
        if reply.done():
            return  # whoever asked has left
        if isinstance(message, Exception):
            reply.set_exception(message)
        else:
            reply.set_result(message)

    def _look(self) -> None:
        """Look for silence now and then, instead of with a timer for each question."""
        self._watch = None
        if not self._waiting:
            return
        if self._silence.looked():
            self._break(RedisTimeoutError("redis did not answer in time"))
        else:
            self._watch = self._loop.call_later(self._look_every_s, self._look)

    def _break(self, error: Exception) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        _fail(self._waiting, error)
        _fail([reply for reply, _ in self._unsent], _not_sent(error))
        self._waiting.clear()
        self._unsent.clear()


def _fail(replies: Iterable[asyncio.Future[Any]], error: Exception) -> None:
    for reply in replies:
        if not reply.done():
            reply.set_exception(error)


def _not_sent(error: Exception) -> Exception:
    return NotSent(str(error)) if isinstance(error, RedisTimeoutError) else error


def _error(message: str) -> Exception:
    kind = NoScriptError if message.startswith("NOSCRIPT") else ResponseError
    return kind(message)
