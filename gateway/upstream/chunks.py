"""What servers say, read into Frames; whatever is not of OpenAI's shape is `Cut`.

An own worker's events carry a `sluice` object with cumulative usage and position; an external
server's are plainer, with usage in the last one; its vectors come in one document, and so do short
answers that nobody streams.
"""

import struct
from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from billing.limits.gcra import UNITS_MAX
from billing.types import UNREADABLE, Usage
from gateway.call.frame import NO_IDS, Choice, Frame, Index, Logprobs, PromptLogprobs
from gateway.upstream.answer import Cut, Malformed, Reported

FLOAT_BYTES = 4
TOKEN_BYTES = 4
"""About as much text as a token stands for, where a server does not say how many there are."""
TOOL_CALLS_MAX = 1024
REASON_MAX = 64
TEXTS = ("refusal", "reasoning_content", "reasoning")
FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""OpenAI's. Whatever is neither of these nor of SYNONYMS, `abort` or `error` say, is no end of an
answer but what became of it instead, and cuts it."""
SYNONYMS = {
    "": None,
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
    "model_length": "length",
    "repetition": "length",
    "tool_use": "tool_calls",
}
"""What servers say instead: text-generation-inference (`eos_token`, `stop_sequence`), Together
(`eos`), Mistral (`model_length`), vLLM (`repetition`), xAI and whoever stands before Anthropic's
models. Some say an empty one for none yet."""

Count = Annotated[int, msgspec.Meta(ge=0, le=UNITS_MAX // 3)]
"""What an upstream says it used is our cost, so it is not believed below zero or beyond reason;
what of it is charged is bounded by what is held."""


class _OwnUsage(msgspec.Struct):
    input: Count
    cached_input: Count
    output: Count


class _Sluice(msgspec.Struct):
    position: Count
    usage: _OwnUsage
    busy_us: Count = 0
    token_ids: msgspec.Raw = NO_IDS


class _PromptDetails(msgspec.Struct):
    cached_tokens: Count | None = 0
    cache_write_tokens: Count | None = 0
    audio_tokens: Count | None = 0
    image_tokens: Count | None = 0


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: Count | None = 0
    audio_tokens: Count | None = 0
    image_tokens: Count | None = 0


class _PlainUsage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count = 0
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Chunk(msgspec.Struct):
    choices: tuple[Choice, ...] = ()
    sluice: _Sluice | None = None
    usage: _PlainUsage | None = None
    error: dict[str, Any] | None = None


class _Answered(msgspec.Struct):
    index: Index = 0
    message: dict[str, object] = {}
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    logprobs: Logprobs | None = None
    prompt_logprobs: PromptLogprobs | None = None


class _Document(msgspec.Struct):
    choices: list[_Answered] = []
    prompt_logprobs: PromptLogprobs | None = None
    usage: _PlainUsage | None = None
    error: dict[str, Any] | None = None


class _Vector(msgspec.Struct):
    index: Index
    embedding: str | list[float]


class _Vectors(msgspec.Struct):
    data: list[_Vector]
    usage: _PlainUsage | None = None


def read_chunk(payload: bytes) -> Frame:
    """One event's payload as a Frame; raises Cut."""
    try:
        chunk = _CHUNK.decode(payload)
    except UNREADABLE as malformed:
        if (bare := _without_usage(payload)) is not None:
            return read_chunk(msgspec.json.encode(bare))
        raise Malformed(f"a malformed chunk: {malformed}") from malformed
    if chunk.error is not None:
        raise Reported(chunk.error)
    choices = chunk.choices
    for choice in choices:
        _check(choice)
        if choice.finish_reason is not None and choice.finish_reason not in FINISH_REASONS:
            choices = _in_openais_words(choices)
    note = chunk.sluice
    if note is None:
        return Frame(choices, _plain_usage(chunk.usage) if chunk.usage else None)
    return Frame(choices, _own_usage(note), note.position, note.busy_us, note.token_ids)


def _without_usage(payload: bytes) -> dict[str, Any] | None:
    """What a server outside says whose counts nobody can believe: negative, beyond reason, no
    numbers. They are left out, and what arrives is counted instead."""
    try:
        document = msgspec.json.decode(payload, type=dict[str, Any])
    except UNREADABLE:
        return None
    is_own = "sluice" in document
    return None if is_own or document.pop("usage", None) is None else document


def _in_openais_words(choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    return tuple([replace(c, finish_reason=_finish_reason(c.finish_reason)) for c in choices])


def _finish_reason(reason: str | None) -> str | None:
    """In OpenAI's words; raises Cut for an end that is none."""
    if reason is None or reason in FINISH_REASONS:
        return reason
    if reason not in SYNONYMS:
        raise Cut(f"the upstream ended an answer with '{reason[:REASON_MAX]}'")
    return SYNONYMS[reason]


def read_answer(body: bytes, prompt_tokens: int) -> Frame:
    """A whole answer in one document as one Frame; raises Cut."""
    try:
        document = _DOCUMENT.decode(body)
    except UNREADABLE as malformed:
        if (bare := _without_usage(body)) is not None:
            return read_answer(msgspec.json.encode(bare), prompt_tokens)
        raise Cut(f"a malformed document: {malformed}") from malformed
    if document.error is not None:
        raise Reported(document.error)
    if document.prompt_logprobs is not None and document.choices:  # where vLLM has those of a chat
        document.choices[0].prompt_logprobs = document.prompt_logprobs
    choices = tuple([_answered(choice_of_document) for choice_of_document in document.choices])
    usage = _plain_usage(document.usage) if document.usage else None
    if usage is None:
        size = sum(len(str(value)) for choice in choices for value in choice.full_delta.values())
        size += sum(len(choice.text or "") for choice in choices)
        usage = Usage(input=prompt_tokens, output=-(-size // TOKEN_BYTES))
    return Frame(choices, usage)


def _answered(piece: _Answered) -> Choice:
    """Of a whole answer: one piece, whose calls of tools are numbered as pieces of a stream are."""
    delta = piece.message
    calls = delta.get("tool_calls")
    if isinstance(calls, list) and all(isinstance(call, dict) for call in calls):
        numbered = [{"index": index} | call for index, call in enumerate(calls)]
        delta = delta | {"tool_calls": numbered}
    choice = Choice(
        index=piece.index,
        delta=delta,
        text=piece.text,
        finish_reason=_finish_reason(piece.finish_reason),
        stop_reason=piece.stop_reason,
        logprobs=piece.logprobs,
        prompt_logprobs=piece.prompt_logprobs,
    )
    _check(choice)
    return choice


def _check(choice: Choice) -> None:
    delta = choice.delta
    content = delta.get("content")
    if content is not None and not isinstance(content, str):
        raise Malformed("a malformed chunk: its content is no text")
    # Most say text alone, or with their role.
    if content is None or (len(delta) > 1 and (len(delta) > 2 or "role" not in delta)):
        for name in TEXTS:
            if not isinstance(delta.get(name) or "", str):
                raise Malformed(f"a malformed chunk: its {name} is no text")
        if delta.get("tool_calls"):
            _check_tool_calls(choice)
    if choice.embedding is not None:
        _check_vector(choice.embedding)


def _check_tool_calls(choice: Choice) -> None:
    try:
        pieces = choice.tool_calls
    except msgspec.ValidationError as malformed:
        raise Malformed(f"a malformed chunk: {malformed}") from malformed
    if any(piece.index >= TOOL_CALLS_MAX for piece in pieces):
        raise Cut(f"more than {TOOL_CALLS_MAX} tool calls in one choice")


def read_vectors(body: bytes) -> Frame:
    """A whole document of embeddings as one Frame; raises Cut. Vectors cost input alone."""
    try:
        document = msgspec.json.decode(body, type=_Vectors)
    except UNREADABLE as malformed:
        raise Cut(f"a malformed document: {malformed}") from malformed
    choices = [
        Choice(index=v.index, finish_reason="stop", embedding=_base64(v.embedding))
        for v in document.data
    ]
    usage = _plain_usage(document.usage) if document.usage else None
    return Frame(tuple(choices), usage and Usage(usage.input, usage.cached_input))


def _base64(vector: str | Sequence[float]) -> str:
    """A vector as base64, as which it was asked for: some servers know numbers only."""
    if not isinstance(vector, str):
        try:
            packed = struct.pack(f"<{len(vector)}f", *vector)
        except OverflowError as beyond:
            raise Cut("a vector has a number beyond float32") from beyond
        vector = b2a_base64(packed, newline=False).decode()
    _check_vector(vector)
    return vector


def _check_vector(vector: str) -> None:
    try:
        size = len(a2b_base64(vector, strict_mode=True))
    except (Error, ValueError) as broken:
        raise Cut("a vector is no base64") from broken
    if not size or size % FLOAT_BYTES:
        raise Cut("a vector is no row of float32")


def _own_usage(sluice: _Sluice) -> Usage:
    used = sluice.usage
    return Usage(input=used.input, cached_input=used.cached_input, output=used.output)


def _plain_usage(usage: _PlainUsage) -> Usage:
    """OpenAI counts what was cached inside the prompt and reasoning inside the completion; ours
    are disjoint, and no part is believed beyond its whole."""
    prompt = usage.prompt_tokens_details or _PromptDetails()
    completion = usage.completion_tokens_details or _CompletionDetails()
    cached = min(prompt.cached_tokens or 0, usage.prompt_tokens)
    written = min(prompt.cache_write_tokens or 0, usage.prompt_tokens - cached)
    reasoning = min(completion.reasoning_tokens or 0, usage.completion_tokens)
    fresh, said = usage.prompt_tokens - cached - written, usage.completion_tokens - reasoning
    heard, seen = _parts(fresh, prompt.audio_tokens, prompt.image_tokens)
    spoken, drawn = _parts(said, completion.audio_tokens, completion.image_tokens)
    return Usage(
        input=fresh - heard - seen,
        cached_input=cached,
        output=said - spoken - drawn,
        cache_write=written,
        reasoning=reasoning,
        audio_input=heard,
        image_input=seen,
        audio_output=spoken,
        image_output=drawn,
    )


def _parts(whole: int, audio: int | None, image: int | None) -> tuple[int, int]:
    """Tokens of sound and of images, which together are no more than the whole."""
    sound = min(audio or 0, whole)
    return sound, min(image or 0, whole - sound)


_CHUNK = msgspec.json.Decoder(_Chunk)
_DOCUMENT = msgspec.json.Decoder(_Document)
