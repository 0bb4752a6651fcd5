"""The worker's HTTP shapes: what a body may say, and the bytes of frames and errors. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

import msgspec

from workers.engines.base import (
    ContextLengthExceeded,
    EngineError,
    EngineOverloaded,
    Frame,
    GenerationAborted,
    GenerationRequest,
    PromptInvalid,
    RequestInFlight,
)

FRAME_VERSION = 1
DONE = b"data: [DONE]\n\n"

TokensMax = Annotated[int, msgspec.Meta(ge=1)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
TopP = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Stops = Annotated[list[str], msgspec.Meta(max_length=4)]


class SluiceFields(msgspec.Struct, frozen=True):
    request_id: str
    cache_salt: str = ""
    immediate: bool = False


class ChatBody(msgspec.Struct, frozen=True):
    """OpenAI's chat body, as far as it says what to generate, and ours beside it."""

    messages: list[dict[str, Any]]
    sluice: SluiceFields
    max_tokens: TokensMax | None = None
    max_completion_tokens: TokensMax | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    stop: str | Stops | None = None
    seed: Seed | None = None


class DrainBody(msgspec.Struct, frozen=True):
    draining: bool = True


@dataclass(eq=False)
class HttpError(Exception):
    """An answer that refuses, in OpenAI's error shape."""

    status: int
    code: str
    message: str
    param: str | None = None

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})


def chat_body(raw: bytes) -> ChatBody:
    try:
        return msgspec.json.decode(raw, type=ChatBody)
    except msgspec.DecodeError as error:
        raise HttpError(400, "invalid_body", str(error)) from error


def drain_body(raw: bytes) -> DrainBody:
    try:
        return msgspec.json.decode(raw, type=DrainBody) if raw else DrainBody()
    except msgspec.DecodeError as error:
        raise HttpError(400, "invalid_body", str(error)) from error


def generation_request(body: ChatBody, prompt_token_ids: tuple[int, ...]) -> GenerationRequest:
    request_id = body.sluice.request_id
    return GenerationRequest(
        request_id=request_id,
        prompt_token_ids=prompt_token_ids,
        seed=seed_of(request_id) if body.seed is None else body.seed,
        tokens_max=body.max_completion_tokens or body.max_tokens,
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        cache_salt=body.sluice.cache_salt,
        immediate=body.sluice.immediate,
    )


def seed_of(request_id: str) -> int:
    """The draws of a call that names no seed: as various as request ids, and the same on resume."""
    digest = blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def frame_event(frame: Frame) -> bytes:
    usage = frame.usage
    choice = {
        "index": 0,
        "delta": {"content": frame.text},
        "finish_reason": frame.finish_reason,
    }
    sluice = {
        "v": FRAME_VERSION,
        "position": frame.position,
        "token_ids": frame.token_ids,
        "usage": {
            "input": usage.input,
            "cached_input": usage.cached_input,
            "output": usage.output,
        },
    }
    return event({"choices": [choice], "sluice": sluice})


def error_event(error: HttpError) -> bytes:
    return b"data: " + error.body() + b"\n\n"


def event(payload: object) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"


def refusal(error: EngineError) -> HttpError:
    """How an engine's no looks on the wire."""
    message = str(error)
    match error:
        case ContextLengthExceeded():
            return HttpError(400, "context_length_exceeded", message, "messages")
        case PromptInvalid():
            return HttpError(400, "invalid_prompt", message, "messages")
        case RequestInFlight():
            return HttpError(409, "request_in_flight", f"{message} is already being generated")
        case EngineOverloaded():
            return HttpError(503, "server_is_overloaded", message)
        case GenerationAborted():
            return HttpError(500, "generation_aborted", f"{message} was aborted")
        case _:
            return HttpError(500, "engine_failed", message)
