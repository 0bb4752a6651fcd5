"""`POST /v1/messages/count_tokens`: the input tokens of a message, by the model's own tokenizer.

Nothing runs and nothing is charged. The very count that a call's prompt is held by, so it is what
that call is charged for, tools included.
"""

import asyncio

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from gateway.api.needs import parts_of, require_json, whole_body
from gateway.auth import Principal
from gateway.errors import model_not_found, model_not_supported
from gateway.parts import Parts
from gateway.pipeline import LARGE_BODY_BYTES
from gateway.room import require_countable
from gateway.wire.anthropic.body import parse_count
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.headers import identity

router = APIRouter(prefix="/v1", tags=["public"], dependencies=[Depends(require_json)])


@router.post("/messages/count_tokens")
async def count_tokens(request: Request) -> Response:
    """Body: that of a message, without what only an answer needs."""
    parts = parts_of(request)
    arrived_s = parts.outside.clock()
    caller = await parts.keys.authenticate(ANTHROPIC.authorization(request.headers))
    body = await whole_body(request)
    if len(body) > LARGE_BODY_BYTES:
        tokens = await asyncio.to_thread(_input_tokens, parts, caller, body)
    else:
        tokens = _input_tokens(parts, caller, body)
    now_s = parts.outside.clock()
    named = identity(parts.new_id("req"), arrived_s, now_s)
    return Response(
        msgspec.json.encode({"input_tokens": tokens}),
        media_type="application/json",
        headers=ANTHROPIC.headers(named, now_s),
    )


def _input_tokens(parts: Parts, caller: Principal, body: bytes) -> int:
    """Raises ApiError 400, or 404 for a model that is not there or that the key may not use."""
    name, wanted = parse_count(body)
    if not caller.leave.may_use(name):
        raise model_not_found(name)
    catalog = parts.catalog.catalog
    counter = catalog.checkpoint(name)
    if catalog.models[name].task is not wanted.task:
        raise model_not_supported(name, wanted.task)
    require_countable(catalog.models[name], wanted, len(body))
    return sum(wanted.prompt_tokens(counter))
