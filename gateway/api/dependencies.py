"""What routes ask for: the parts and the calling principal."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.requests import ClientDisconnect

from gateway.api.media import refuse_other_media
from gateway.errors import bad_request
from gateway.parts import Parts
from gateway.tenants.auth import Principal
from gateway.wire.anthropic.dialect import ANTHROPIC, VERSION
from gateway.wire.dialect import OPENAI, Dialect


def parts_of(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def principal_of(request: Request) -> Principal:
    dialect: Dialect = ANTHROPIC if VERSION in request.headers else OPENAI
    return await parts_of(request).keys.authenticate(dialect.authorization(request.headers))


async def require_json(request: Request) -> None:
    """Raises ApiError 415 for a body that says it is something else."""
    refuse_other_media(request.headers)


async def whole_body(request: Request) -> bytes:
    """Raises ApiError 400; how large and how slow it may be is the middleware's business."""
    try:
        return await request.body()
    except ClientDisconnect as left:
        raise bad_request("The body of the request did not come whole.") from left


Caller = Annotated[Principal, Depends(principal_of)]
