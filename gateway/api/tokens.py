"""`POST /v1/tokenize` and `/v1/detokenize`: what a call would be in tokens, free of charge.

Counts by the very tokenizers that calls are held by, so it agrees with what they are charged.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Depends, Request

from gateway.api.needs import Caller, parts_of, require_json, whole_body
from gateway.auth import Principal
from gateway.errors import bad_request, model_not_found
from gateway.parts import Parts
from gateway.pipeline import LARGE_BODY_BYTES
from gateway.tokens import CheckpointTokens, UnknownTokenId, UnrenderableConversation
from gateway.wire.checks import string_too_long, unsupported
from gateway.wire.tokenize import (
    TokenizeRequest,
    parse_detokenize,
    parse_tokenize,
    tokenized,
)
from workers.templates import ToolsUnsupported

CHARACTERS_MAX = 512 * 1024
"""More of them take a tokenizer hundreds of megabytes."""

router = APIRouter(prefix="/v1", tags=["public"], dependencies=[Depends(require_json)])


@router.post("/tokenize")
async def tokenize(request: Request, caller: Caller) -> dict[str, Any]:
    """Body: `model`, and `prompt` or `messages`."""
    parts = parts_of(request)
    body = await whole_body(request)
    if len(body) > LARGE_BODY_BYTES:
        return await asyncio.to_thread(_tokenized, parts, caller, body)
    return _tokenized(parts, caller, body)


@router.post("/detokenize")
async def detokenize(request: Request, caller: Caller) -> dict[str, Any]:
    """Body: `model` and `tokens`, an array of ids."""
    parts = parts_of(request)
    body = await whole_body(request)
    if len(body) > LARGE_BODY_BYTES:
        return await asyncio.to_thread(_detokenized, parts, caller, body)
    return _detokenized(parts, caller, body)


def _tokenized(parts: Parts, caller: Principal, body: bytes) -> dict[str, Any]:
    wanted = parse_tokenize(body)
    checkpoint = _checkpoint(parts, caller, wanted.model)
    model = parts.catalog.catalog.models[wanted.model]
    _require_bounded(wanted)
    ids = _ids(checkpoint, wanted)
    strings = checkpoint.token_strings(ids) if wanted.return_token_strs else None
    return tokenized(ids, model.context_tokens, strings)


def _require_bounded(wanted: TokenizeRequest) -> None:
    """Text may be longer than any context, as of those who cut it into pieces by tokens."""
    characters = wanted.longest_characters()
    if characters > CHARACTERS_MAX:
        raise string_too_long(wanted.param, CHARACTERS_MAX, characters)


def _ids(checkpoint: CheckpointTokens, wanted: TokenizeRequest) -> Sequence[int]:
    if wanted.prompt is not None:
        return checkpoint.text_ids(wanted.prompt, add_special_tokens=wanted.add_special_tokens)
    try:
        return checkpoint.conversation_ids(
            wanted.messages or (),
            wanted.tools,
            add_generation_prompt=wanted.add_generation_prompt,
        )
    except UnrenderableConversation as refused:
        raise bad_request(str(refused), "messages") from refused
    except ToolsUnsupported as untold:
        raise unsupported(untold.param) from untold


def _detokenized(parts: Parts, caller: Principal, body: bytes) -> dict[str, Any]:
    wanted = parse_detokenize(body)
    checkpoint = _checkpoint(parts, caller, wanted.model)
    return {"prompt": text_of(checkpoint, wanted.tokens, "tokens")}


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
