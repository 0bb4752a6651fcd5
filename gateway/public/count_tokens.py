"""`POST /v1/messages/count_tokens` and `POST /v1/responses/input_tokens`: the input tokens of a
call, by the model's own tokenizer.

Nothing runs and nothing is charged. The very count that a call's prompt is held by, so it is what
that call is charged for, tools included.
"""

from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter, Depends, Request, Response
from pydantic import NonNegativeInt

from gateway.api.dependencies import Caller, parts_of, require_json, whole_body
from gateway.api.schemas import Answer
from gateway.call.context import require_countable
from gateway.call.rate_headers import identity
from gateway.errors import model_not_found, model_not_supported
from gateway.parts import Parts
from gateway.tenants.auth import Principal
from gateway.wire.anthropic.body import parse_count
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.bodies.origins import by_callers_names
from gateway.wire.responses.body import ORIGINS, parse_input_count

Parse = Callable[[bytes], tuple[str, Conversation]]

router = APIRouter(prefix="/v1", tags=["tokens"], dependencies=[Depends(require_json)])


class InputTokens(Answer):
    input_tokens: NonNegativeInt


class ResponseInputTokens(InputTokens):
    object: Literal["response.input_tokens"] = "response.input_tokens"


@router.post("/messages/count_tokens", response_model=InputTokens)
async def count_tokens(request: Request, response: Response) -> Any:
    """Body: that of a message, without what only an answer needs."""
    parts = parts_of(request)
    arrived_s = parts.outside.clock()
    caller = await parts.keys.authenticate(ANTHROPIC.authorization(request.headers))
    tokens = await _input_tokens(parts, caller, await whole_body(request), parse_count)
    now_s = parts.outside.clock()
    response.headers.update(
        ANTHROPIC.headers(identity(parts.new_id("req"), arrived_s, now_s), now_s)
    )
    return InputTokens(input_tokens=tokens)


@router.post("/responses/input_tokens", response_model=ResponseInputTokens)
async def input_tokens(request: Request, caller: Caller) -> Any:
    """Body: that of a response, without what only an answer needs."""
    body = await whole_body(request)
    with by_callers_names(ORIGINS):
        tokens = await _input_tokens(parts_of(request), caller, body, parse_input_count)
    return ResponseInputTokens(input_tokens=tokens)


async def _input_tokens(parts: Parts, caller: Principal, body: bytes, parse: Parse) -> int:
    """Raises ApiError 400, or 404 for a model that is not there or that the key may not use."""
    return await parts.counting.free(caller, len(body), _counted, parts, caller, body, parse)


def _counted(parts: Parts, caller: Principal, body: bytes, parse: Parse) -> int:
    name, payload = parse(body)
    if not caller.leave.may_use(name):
        raise model_not_found(name)
    catalog = parts.catalog.catalog
    counter = catalog.checkpoint(name)
    if catalog.models[name].task is not payload.task:
        raise model_not_supported(name, payload.task.verb)
    require_countable(catalog.models[name], payload, len(body))
    return sum(payload.prompt_tokens(counter))
