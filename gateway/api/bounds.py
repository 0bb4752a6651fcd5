"""Pure ASGI middleware: no request body of any route is larger than its bound.

Frameworks read a body before they ask who sent it, so the bound comes before the key. A body that
announces too much is refused before any of it is read.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from gateway.errors import body_too_large

AsgiApp = Callable[..., Awaitable[None]]


class BodyBoundMiddleware:
    def __init__(self, app: AsgiApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        size = 0
        is_announced_too_large = _announced_bytes(scope["headers"]) > self._bytes_max

        async def bounded() -> dict[str, Any]:
            nonlocal size
            if is_announced_too_large:
                raise body_too_large(self._bytes_max)
            message: dict[str, Any] = await receive()
            size += len(message.get("body", b""))
            if size > self._bytes_max:
                raise body_too_large(self._bytes_max)
            return message

        await self._app(scope, bounded, send)


def _announced_bytes(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """What `content-length` says; the server has refused one that is no number."""
    for name, value in headers:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
