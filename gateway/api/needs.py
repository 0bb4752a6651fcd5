"""What routes ask for: the parts, the calling principal, the administrator."""

import asyncio
import hmac
from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from gateway.api.media import refuse_other_media
from gateway.auth import Principal, bearer
from gateway.errors import ApiError, bad_request, invalid_key
from gateway.parts import Parts
from gateway.wire.anthropic.dialect import ANTHROPIC, VERSION
from gateway.wire.dialect import OPENAI, Dialect


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def principal_of(request: Request) -> Principal:
    dialect: Dialect = ANTHROPIC if VERSION in request.headers else OPENAI
    return await parts_of(request).keys.authenticate(dialect.authorization(request.headers))


def is_admin(request: Request) -> bool:
    """Whether the bearer is the admin key; raises ApiError 401 without a bearer."""
    expected = parts_of(request).settings.admin_key
    given = bearer(request.headers.get("authorization"))
    return bool(expected) and hmac.compare_digest(given.encode(), str(expected).encode())


async def require_admin(request: Request) -> None:
    """Raises ApiError 401 unless the bearer is the admin key."""
    if not is_admin(request):
        raise invalid_key()


async def require_json(request: Request) -> None:
    """Raises ApiError 415 for a body that says it is something else."""
    refuse_other_media(request.headers)


async def whole_body(request: Request) -> bytes:
    """Raises ApiError 408 or 400; how large it may be is the middleware's business."""
    try:
        async with asyncio.timeout(parts_of(request).settings.gateway.body_timeout_s):
            return await request.body()
    except TimeoutError as slow:
        raise ApiError(408, "The body of the request came too slowly.") from slow
    except ClientDisconnect as left:
        raise bad_request("The body of the request did not come whole.") from left


Caller = Annotated[Principal, Depends(principal_of)]
