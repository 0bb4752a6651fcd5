"""The door of `/admin/`: the admin key is asked for before a body is read or a route looked for.

Pure ASGI, in front of the routes: FastAPI reads a body before it asks who sent it. So no route
below that path is ever open, whatever it forgets.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from fastapi import Request

from gateway.api.error_handlers import error_response
from gateway.errors import ApiError, invalid_key, too_many_wrong_keys
from gateway.parts import Parts
from gateway.tenants.auth import bearer
from gateway.wire.dialect import OPENAI

AsgiApp = Callable[..., Awaitable[None]]
PREFIX = "/admin/"


class AdminKeyMiddleware:
    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            request = Request(scope)
            try:
                await require_admin(request)
            except ApiError as refused:
                response = error_response(refused, OPENAI, {}, _parts_of(request).outside.clock())
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def require_admin(request: Request) -> None:
    """Raises ApiError 401 unless the bearer is the admin key, or 429: see `wrong_keys`."""
    if not is_admin(request):
        await refuse_wrong_key(request)


def is_admin(request: Request) -> bool:
    """Whether the bearer is the admin key, as far as it may be looked at. Raises ApiError 401
    without a bearer."""
    key = bearer(request.headers.get("authorization"))
    parts, address = _parts_of(request), _address(request)
    now_s, expected = parts.outside.clock(), parts.settings.admin_key
    if not expected or parts.wrong_keys.full_for_s(address, now_s):
        return False
    is_right = hmac.compare_digest(key.encode(), expected.encode())
    if is_right:
        parts.wrong_keys.welcome(address, now_s)
    return is_right


async def refuse_wrong_key(request: Request) -> NoReturn:
    """Raises ApiError 401 once it is the turn of this answer, or 429 at once."""
    parts, address = _parts_of(request), _address(request)
    now_s = parts.outside.clock()
    if wait_s := parts.wrong_keys.full_for_s(address, now_s):
        raise too_many_wrong_keys(wait_s)
    await asyncio.sleep(parts.wrong_keys.queue(address, now_s))
    raise invalid_key()


def _parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def _address(request: Request) -> str:
    return request.client.host if request.client else ""
