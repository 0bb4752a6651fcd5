"""Pure ASGI middleware around every route: ids of requests, a gateway that still waits for its
database, and bounds on bodies."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi.responses import JSONResponse, Response

from gateway.api.error_handlers import AWAY_S, error_response
from gateway.call.rate_headers import identity, raw
from gateway.errors import body_too_large, body_too_slow, overloaded
from gateway.wire.dialect import OPENAI
from routing.types import Clock

AsgiApp = Callable[..., Awaitable[None]]


class IdentityMiddleware:
    """Every response carries `x-request-id` and `openai-processing-ms`; a route that made its own
    id keeps it."""

    def __init__(self, app: AsgiApp, new_id: Callable[[str], str], clock: Clock) -> None:
        self._app = app
        self._new_id = new_id
        self._clock = clock

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        arrived_s = self._clock()

        async def named(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                if b"x-request-id" not in present:
                    own = identity(self._new_id("req"), arrived_s, self._clock())
                    message = message | {"headers": [*message["headers"], *raw(own)]}
            await send(message)

        await self._app(scope, receive, named)


ALIVE = ("/health", "/livez", "/healthz")


class WaitingMiddleware:
    """While something is away that a gateway cannot begin without, it answers that it lives, and
    why it takes no call yet. `waits_for` of the application's state is a word for what is away, or
    None."""

    def __init__(self, app: AsgiApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] not in ALIVE:
            waits_for = getattr(scope["app"].state, "waits_for", None)
            if waits_for is not None:
                response = self._answer(scope["path"], waits_for)
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _answer(self, path: str, waits_for: str) -> Response:
        if path == "/readyz":
            answer = {"status": "not ready", "checks": {waits_for: False}}
            return JSONResponse(answer, status_code=503)
        error = overloaded(f"The gateway waits for its {waits_for}.", AWAY_S)
        return error_response(error, OPENAI, {}, self._clock())


class BodyBoundMiddleware:
    """No body of a request is larger than its bound, or slower. One that announces too much is
    refused before any of it is read."""

    def __init__(self, app: AsgiApp, bytes_max: int, timeout_s: float) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        bounded = BoundedBody(receive, self._bytes_max, self._timeout_s)
        bounded.is_too_large = _announced_bytes(scope["headers"]) > self._bytes_max
        await self._app(scope, bounded, send)


class BoundedBody:
    """`receive` of one request. The time runs from when the body is first asked for."""

    def __init__(self, receive: Any, bytes_max: int, timeout_s: float) -> None:
        self._receive = receive
        self._bytes_max = bytes_max
        self._timeout_s = timeout_s
        self._late_s: float | None = None
        self._size = 0
        self._is_whole = False
        self.is_too_large = False

    async def __call__(self) -> dict[str, Any]:
        """Raises ApiError 408 or 413."""
        if self.is_too_large:
            raise body_too_large(self._bytes_max)
        if self._is_whole:  # what is received now is that the client leaves
            message: dict[str, Any] = await self._receive()
            return message
        message = await self._within_time()
        self._is_whole = not message.get("more_body", False)
        self._size += len(message.get("body", b""))
        self.is_too_large = self._size > self._bytes_max
        if self.is_too_large:
            raise body_too_large(self._bytes_max)
        return message

    async def _within_time(self) -> dict[str, Any]:
        if self._late_s is None:
            self._late_s = asyncio.get_running_loop().time() + self._timeout_s
        try:
            async with asyncio.timeout_at(self._late_s):
                message: dict[str, Any] = await self._receive()
                return message
        except TimeoutError as slow:
            raise body_too_slow() from slow


def _announced_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """What `content-length` says; the server has refused one that is no number."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
