"""Pure ASGI middleware: every response carries `x-request-id` and `openai-processing-ms`.

Ignorant of routes; a route that made its own id keeps it.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from gateway.wire.headers import identity, raw
from routing.types import Clock

AsgiApp = Callable[..., Awaitable[None]]


class IdentityMiddleware:
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
