"""`POST /v1/tokenize` and `/v1/detokenize`: what a call would be in tokens, free of charge.

Counts by the very tokenizers that calls are held by, so it agrees with what they are charged.
"""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import NonNegativeInt

from gateway.api.dependencies import Caller, parts_of, require_json, whole_body
from gateway.api.schemas import Answer
from gateway.catalog.tokenizers import CheckpointTokens, UnknownTokenId, UnrenderableConversation
from gateway.errors import bad_request, model_not_found
from gateway.parts import Parts
from gateway.tenants.auth import Principal
from gateway.wire.bodies.checks import string_too_long, unsupported
from gateway.wire.bodies.tokenize import (
    TokenizeRequest,
    parse_detokenize,
    parse_tokenize,
)
from workers.prompts.templates import ToolsUnsupported
from workers.sampling import Rendering

CHARACTERS_MAX = 512 * 1024
"""More of them take a tokenizer hundreds of megabytes."""

router = APIRouter(prefix="/v1", tags=["tokens"], dependencies=[Depends(require_json)])


class Tokens(Answer):
    count: NonNegativeInt
    max_model_len: NonNegativeInt
    tokens: list[NonNegativeInt]
    token_strs: list[str] | None


class Prompt(Answer):
    prompt: str


@router.post("/tokenize", response_model=Tokens)
async def tokenize(request: Request, caller: Caller) -> Any:
    """Body: `model`, and `prompt` or `messages`."""
    parts = parts_of(request)
    body = await whole_body(request)
    return await parts.counting.free(caller, len(body), _tokenized, parts, caller, body)


@router.post("/detokenize", response_model=Prompt)
async def detokenize(request: Request, caller: Caller) -> Any:
    """Body: `model` and `tokens`, an array of ids."""
    parts = parts_of(request)
    body = await whole_body(request)
    return await parts.counting.free(caller, len(body), _detokenized, parts, caller, body)


def _tokenized(parts: Parts, caller: Principal, body: bytes) -> Tokens:
    request = parse_tokenize(body)
    checkpoint = _checkpoint(parts, caller, request.model)
    model = parts.catalog.catalog.models[request.model]
    _require_bounded(request)
    ids = _ids(checkpoint, request)
    strings = checkpoint.token_strings(ids) if request.return_token_strs else None
    return Tokens(
        count=len(ids), max_model_len=model.context_tokens, tokens=ids, token_strs=strings
    )


def _require_bounded(request: TokenizeRequest) -> None:
    """Text may be longer than any context, as of those who cut it into pieces by tokens."""
    characters = request.longest_characters()
    if characters > CHARACTERS_MAX:
        raise string_too_long(request.param, CHARACTERS_MAX, characters)


def _ids(checkpoint: CheckpointTokens, request: TokenizeRequest) -> Sequence[int]:
    if request.prompt is not None:
        return checkpoint.text_ids(request.prompt, add_special_tokens=request.add_special_tokens)
    try:
        return checkpoint.conversation_ids(
            request.messages or (),
            request.tools,
            Rendering(add_generation_prompt=request.add_generation_prompt),
        )
    except UnrenderableConversation as refused:
        raise bad_request(str(refused), "messages") from refused
    except ToolsUnsupported as untold:
        raise unsupported(untold.param) from untold


def _detokenized(parts: Parts, caller: Principal, body: bytes) -> Prompt:
    request = parse_detokenize(body)
    checkpoint = _checkpoint(parts, caller, request.model)
    return Prompt(prompt=text_of(checkpoint, request.tokens, "tokens"))


def _checkpoint(parts: Parts, caller: Principal, model: str) -> CheckpointTokens:
    """Raises ApiError 404 for a model that is not there or that the key may not use."""
    if not caller.leave.may_use(model):
        raise model_not_found(model)
    return parts.catalog.catalog.checkpoint(model)


def text_of(checkpoint: CheckpointTokens, ids: Sequence[int], param: str) -> str:
    """Raises ApiError 400 naming `param` for an id that the vocabulary lacks."""
    try:
        return checkpoint.text(ids)
    except UnknownTokenId as unknown:
        raise bad_request(str(unknown), param, "invalid_value") from unknown
