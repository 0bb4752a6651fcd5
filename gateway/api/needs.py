"""What routes ask for: the parts, the calling principal, the administrator."""

import hmac
from typing import Annotated

from fastapi import Depends, Request

from gateway.auth import Principal, bearer
from gateway.errors import invalid_key
from gateway.parts import Parts


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def principal_of(request: Request) -> Principal:
    return await parts_of(request).keys.authenticate(request.headers.get("authorization"))


def is_admin(request: Request) -> bool:
    """Whether the bearer is the admin key; raises ApiError 401 without a bearer."""
    expected = parts_of(request).settings.admin_key
    given = bearer(request.headers.get("authorization"))
    return bool(expected) and hmac.compare_digest(given.encode(), str(expected).encode())


async def require_admin(request: Request) -> None:
    """Raises ApiError 401 unless the bearer is the admin key."""
    if not is_admin(request):
        raise invalid_key()


Caller = Annotated[Principal, Depends(principal_of)]
