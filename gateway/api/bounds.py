"""Pure ASGI middleware: no request body of any route is larger than its bound.

Frameworks read a body before they ask who sent it, so the bound comes before the key.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException

AsgiApp = Callable[..., Awaitable[None]]


class BodyBoundMiddleware:
    def __init__(self, app: AsgiApp, bytes_max: int) -> None:
        self._app = app
        self._bytes_max = bytes_max

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        size = 0

        async def bounded() -> dict[str, Any]:
            nonlocal size
            message: dict[str, Any] = await receive()
            size += len(message.get("body", b""))
            if size > self._bytes_max:
                raise HTTPException(413, f"The body is larger than {self._bytes_max} bytes.")
            return message

        await self._app(scope, bounded if scope["type"] == "http" else receive, send)
