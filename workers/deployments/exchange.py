"""One HTTP request as ASGI has it, and the ways to answer it: whole, or as a stream of events that
ends with an error or with `[DONE]`. Guards the law that a reader who leaves ends the computation
for it within one step. The server may report that by a disconnect message or by cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from workers.deployments.calls import OpenCalls
from workers.deployments.errors import HttpError, refusal
from workers.deployments.events import DONE, error_event
from workers.engines.base import EngineError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Frame = TypeVar("Frame")
Door = Callable[["Exchange", OpenCalls], Awaitable[None]]
Doors = Mapping[str, Door]
"""What a worker answers to POST, by path."""

BODY_BYTES_MAX = 16 * 1024 * 1024
JSON = (b"content-type", b"application/json")
SSE = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the ways to answer it."""

    scope: Scope
    receive: Receive
    send: Send

    async def body(self) -> bytes:
        """The body of the request. Raises ClientGone, or HttpError for one that is too large."""
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY_BYTES_MAX:
                raise HttpError(413, "body_too_large", f"more than {BODY_BYTES_MAX} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def answer(self, status: int, body: bytes) -> None:
        headers = [JSON, (b"content-length", str(len(body)).encode())]
        await self._start(status, headers)
        await self.send({"type": "http.response.body", "body": body})

    async def stream(
        self,
        frames: AsyncIterator[Frame],
        event: Callable[[Frame], bytes],
        *,
        on_gone: Callable[[], None],
    ) -> None:
        """Send all frames as events and then `[DONE]`, or an error event in its place. `on_gone` is
        called once the client has left, and has to end the frames."""
        await self._start(200, SSE)
        watch = asyncio.create_task(self._watch(on_gone))
        try:
            async for frame in frames:
                await self._part(event(frame))
            await self._part(DONE, more=False)
        except EngineError as error:
            await self._part(error_event(refusal(error)), more=False)
        finally:
            watch.cancel()

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def _part(self, body: bytes, *, more: bool = True) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def _watch(self, on_gone: Callable[[], None]) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        on_gone()


class ClientGone(Exception):
    """The client left before its request was read."""
