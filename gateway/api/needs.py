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


async def require_admin(request: Request) -> None:
    """Raises ApiError 401 unless the bearer is the admin key."""
    expected = parts_of(request).settings.admin_key
    given = bearer(request.headers.get("authorization"))
    if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
        raise invalid_key()


Caller = Annotated[Principal, Depends(principal_of)]
