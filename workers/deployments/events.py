"""The bytes of server-sent events: frames version 1, and errors. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from workers.deployments.calls_made import CallReaders
from workers.deployments.choices import ChoiceFrame
from workers.deployments.errors import HttpError
from workers.engines.base import (
    EmbeddingFrame,
    FinishReason,
    ScoredToken,
    TokenLogprobs,
    TokenUsage,
)

FRAME_VERSION = 1
CALLED = "tool_calls"
DONE = b"data: [DONE]\n\n"
# JSON has no infinity; this is how OpenAI writes a probability too small to tell.
LOGPROB_MIN = -9999.0

Json = dict[str, Any]


def choice_event(choice: ChoiceFrame) -> bytes:
    """One choice of a generating call. Usage and position are those of the whole call."""
    return _choice_event(choice, {"content": choice.frame.text}, choice.frame.finish_reason)


def calling_event(readers: CallReaders, choice: ChoiceFrame) -> bytes:
    """One choice of an answer that may call tools. Its calls are separated from its text."""
    frame, reader = choice.frame, readers[choice.index]
    for text in frame.prefix_texts:
        reader.read(text)  # its caller has what this says
    output = reader.read(frame.text)
    finish: str | None = frame.finish_reason
    if finish is not None:
        output += reader.close()
        if reader.has_called(cut=finish == FinishReason.LENGTH):
            finish = CALLED
    delta: Json = {"content": output.text}
    if output.calls:
        delta["tool_calls"] = [call.shape() for call in output.calls]
    return _choice_event(choice, delta, finish)


def _choice_event(choice: ChoiceFrame, delta: Json, finish_reason: str | None) -> bytes:
    frame = choice.frame
    fields = {
        "index": choice.index,
        "delta": delta,
        "finish_reason": finish_reason,
        "logprobs": None if frame.logprobs is None else {"content": _entries(frame.logprobs)},
    }
    if frame.stopped_by is not None:
        fields["stop_reason"] = frame.stopped_by
    if frame.prompt_logprobs is not None:
        fields["prompt_logprobs"] = _ranked(frame.prompt_logprobs)
    return _event({"choices": [fields], "sluice": _sluice(choice.usage, frame.token_ids)})


def embedding_event(frame: EmbeddingFrame) -> bytes:
    """The vectors of one batch: base64 of little-endian float32."""
    choices = [
        {
            "index": embedding.index,
            "embedding": b64encode(embedding.vector).decode(),
            "finish_reason": "stop",
        }
        for embedding in frame.embeddings
    ]
    return _event({"choices": choices, "sluice": _sluice(frame.usage)})


def error_event(error: HttpError) -> bytes:
    return b"data: " + error.body() + b"\n\n"


def _sluice(usage: TokenUsage, token_ids: Sequence[int] = ()) -> Json:
    return {
        "v": FRAME_VERSION,
        "position": usage.output,
        "busy_us": usage.busy_us,
        "token_ids": token_ids,
        "usage": {
            "input": usage.input,
            "cached_input": usage.cached_input,
            "output": usage.output,
        },
    }


def _entries(logprobs: Sequence[TokenLogprobs]) -> list[Json]:
    return [
        _scored(entry.chosen) | {"top_logprobs": [_scored(token) for token in entry.top]}
        for entry in logprobs
    ]


def _ranked(logprobs: Sequence[TokenLogprobs]) -> list[Json]:
    """Tokens with ids and ranks. vLLM's clients read tokens of a prompt from those."""
    return [
        _identified(entry.chosen)
        | {"rank": entry.rank, "top_logprobs": [_identified(token) for token in entry.top]}
        for entry in logprobs
    ]


def _identified(token: ScoredToken) -> Json:
    return _scored(token) | {"token_id": token.token_id}


def _scored(token: ScoredToken) -> Json:
    logprob = max(token.logprob, LOGPROB_MIN)
    return {"token": token.text, "bytes": list(token.raw), "logprob": logprob}


def _event(payload: Json) -> bytes:
    return b"data: " + msgspec.json.encode(payload) + b"\n\n"
