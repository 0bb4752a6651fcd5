"""Small servers of five providers, built from their published documents: no server of theirs.

Each answers in the shapes of its own API, whole and streamed, and reports the usage that it is
told to. What they are not: a proof that the providers behave like their documents.
"""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from billing.types import Usage

HOLD_S = 20.0


@dataclass
class FakeProvider:
    """One server and what it has seen. `used` is what it reports; with `holds` it stops after its
    first word, or after `told` of them, until its caller leaves."""

    kind: str
    used: Usage
    words: tuple[str, ...] = ("Once ", "upon ", "a time.")
    holds: bool = False
    told: int = 1
    reports: bool = True
    """Whether it says what it used."""
    calls_tool: bool = False
    """It streams a call of the tool `weather` in two pieces, and no word."""
    status: int = 200
    location: str | None = None
    breaks: bool = False
    """It takes a call and breaks the connection."""
    cuts: str | None = None
    """How its stream ends behind `told` words: "properly", "broken" in the middle of an event,
    or with an event that is an "error", in its own form."""
    url: str = ""
    paths: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody has asked; of a stream that holds, its first word is sent."""
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path_qs)
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        if self.status != 200:
            headers = {"location": self.location} if self.location else {}
            return web.json_response(
                {"error": {"message": f"no: {_key_in(request)}", "type": "refused"}},
                status=self.status,
                headers=headers,
            )
        if self.breaks and request.transport is not None:
            request.transport.close()
        is_stream = "stream" in request.path.lower() or bool(self.bodies[-1].get("stream"))
        try:
            if not is_stream:
                self.begun.set()
                if self.holds:
                    await asyncio.sleep(HOLD_S)
                if "embed" in request.path:
                    return web.json_response(self._said(VECTORS[self.kind](self)))
                return web.json_response(self._said(WHOLE[self.kind](self)))
            return await self._stream(request)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    def _said(self, document: dict[str, Any]) -> dict[str, Any]:
        silent = () if self.reports else ("usage", "usageMetadata", "meta")
        return {name: value for name, value in document.items() if name not in silent}

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        binary = self.kind == "bedrock"
        kind = "application/vnd.amazon.eventstream" if binary else "text/event-stream"
        response = web.StreamResponse(headers={"content-type": kind})
        await response.prepare(request)
        events = (TOOL_EVENTS if self.calls_tool else EVENTS)[self.kind](self)
        if not self.reports:
            events = [event for event in map(_unreported, events) if event]
        last = HOLDS_AFTER[self.kind] + self.told - 1
        for number, event in enumerate(events):
            if self.holds and number == last:
                self.begun.set()
                await asyncio.sleep(HOLD_S)
            if self.cuts and number == last:
                return await self._cut(response, event)
            await response.write(event)
        await response.write_eof()
        return response

    async def _cut(self, response: web.StreamResponse, event: bytes) -> web.StreamResponse:
        if self.cuts == "broken":
            await response.write(event[: len(event) // 2])
            transport = response._req.transport if response._req is not None else None
            assert transport is not None
            transport.close()
            return response
        if self.cuts == "error":
            await response.write(ERRORS[self.kind])
        await response.write_eof()
        return response


@asynccontextmanager
async def fake_provider(kind: str, used: Usage, **said: Any) -> AsyncIterator[FakeProvider]:
    fake = FakeProvider(kind, used, **said)
    app = web.Application()
    app.router.add_post("/{path:.*}", fake.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()


def _key_in(request: web.Request) -> str:
    headers = request.headers
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer


def _unreported(event: bytes) -> bytes:
    """The same event without its usage; nothing where it has nothing else. Of text alone."""
    head, found, data = event.partition(b"data: ")
    if not found or data.startswith(b"[DONE]"):
        return event
    document = json.loads(data)
    for place in (document, document.get("message"), document.get("delta")):
        for name in ("usage", "usageMetadata"):
            if isinstance(place, dict):
                place.pop(name, None)
    if document.get("choices") == []:
        return b""
    return b"%sdata: %s\n\n" % (head, json.dumps(document).encode())


def _data(document: object, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(document)}\n\n".encode()


# --- Anthropic: Messages. Its input_tokens leave out what was read from or written to a cache. ----


def _anthropic_used(fake: FakeProvider) -> dict[str, Any]:
    used = fake.used
    return {
        "input_tokens": used.input,
        "cache_read_input_tokens": used.cached_input,
        "cache_creation_input_tokens": used.cache_write,
        "output_tokens": used.completion,
        "output_tokens_details": {"thinking_tokens": used.reasoning},
    }


def _anthropic_whole(fake: FakeProvider) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": "".join(fake.words)}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": _anthropic_used(fake),
    }


def _anthropic_events(fake: FakeProvider) -> list[bytes]:
    begin = _anthropic_whole(fake) | {"content": [], "stop_reason": None}
    begin["usage"] = _anthropic_used(fake) | {"output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begin}]
    block = {"type": "text", "text": ""}
    events.append({"type": "content_block_start", "index": 0, "content_block": block})
    for word in fake.words:
        delta = {"type": "text_delta", "text": word}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events.append({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": _anthropic_used(fake)})
    events.append({"type": "message_stop"})
    return [_data(event, event["type"]) for event in events]


# --- Gemini: generateContent. Its candidates' tokens leave out the thoughts. ----------------------


def _gemini(fake: FakeProvider, text: str, *, ends: bool) -> dict[str, Any]:
    candidate: dict[str, Any] = {
        "index": 0,
        "content": {"role": "model", "parts": [{"text": text}]},
    }
    document: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-2.5-flash"}
    if ends:
        candidate["finishReason"] = "STOP"
        document["usageMetadata"] = {
            "promptTokenCount": fake.used.prompt,
            "cachedContentTokenCount": fake.used.cached_input,
            "candidatesTokenCount": fake.used.output,
            "thoughtsTokenCount": fake.used.reasoning,
            "totalTokenCount": fake.used.total,
        }
    return document


def _gemini_whole(fake: FakeProvider) -> dict[str, Any]:
    return _gemini(fake, "".join(fake.words), ends=True)


def _gemini_events(fake: FakeProvider) -> list[bytes]:
    last = len(fake.words) - 1
    return [_data(_gemini(fake, w, ends=n == last)) for n, w in enumerate(fake.words)]


# --- Bedrock: Converse, whose stream is Amazon's binary event stream. -----------------------------


def _bedrock_used(fake: FakeProvider) -> dict[str, int]:
    used = fake.used
    return {
        "inputTokens": used.input,
        "cacheReadInputTokens": used.cached_input,
        "cacheWriteInputTokens": used.cache_write,
        "outputTokens": used.completion,
        "totalTokens": used.total,
    }


def _bedrock_whole(fake: FakeProvider) -> dict[str, Any]:
    message = {"role": "assistant", "content": [{"text": "".join(fake.words)}]}
    return {
        "output": {"message": message},
        "stopReason": "end_turn",
        "usage": _bedrock_used(fake),
        "metrics": {"latencyMs": 1},
    }


def _bedrock_events(fake: FakeProvider) -> list[bytes]:
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    for word in fake.words:
        events.append(("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": word}}))
    events.append(("contentBlockStop", {"contentBlockIndex": 0}))
    events.append(("messageStop", {"stopReason": "end_turn"}))
    if fake.reports:
        events.append(("metadata", {"usage": _bedrock_used(fake), "metrics": {"latencyMs": 1}}))
    return [_event_stream(name, document) for name, document in events]


def _event_stream(name: str, document: dict[str, Any], kind: str = "event") -> bytes:
    """One message: lengths and their sum, headers of text (type 7), payload, sum of all."""
    said = {f":{kind}-type": name, ":content-type": "application/json", ":message-type": kind}
    headers = b"".join(
        bytes([len(n)]) + n.encode() + b"\x07" + struct.pack(">H", len(v)) + v.encode()
        for n, v in said.items()
    )
    payload = json.dumps(document).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


# --- Azure: OpenAI's chat below a deployment. -----------------------------------------------------


def _azure_used(fake: FakeProvider) -> dict[str, Any]:
    used = fake.used
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.total,
        "prompt_tokens_details": {"cached_tokens": used.cached_input, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning, "audio_tokens": 0},
    }


def _azure_whole(fake: FakeProvider) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(fake.words), "refusal": None}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o"}
    return head | {"choices": [choice], "usage": _azure_used(fake)}


def _azure_events(fake: FakeProvider) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _data(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": word}) for word in fake.words]
    events += [chunk({}, "stop"), _data(head | {"choices": [], "usage": _azure_used(fake)})]
    return [*events, b"data: [DONE]\n\n"]


# --- Azure and OpenAI: texts to go on with. -------------------------------------------------------


def _text_piece(text: str, reason: str | None) -> dict[str, Any]:
    choice = {"index": 0, "text": text, "finish_reason": reason, "logprobs": None}
    head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "instruct"}
    return head | {"choices": [choice]}


def _text_whole(fake: FakeProvider) -> dict[str, Any]:
    return _text_piece("".join(fake.words), "stop") | {"usage": _azure_used(fake)}


def _text_events(fake: FakeProvider) -> list[bytes]:
    events = [_data(_text_piece(word, None)) for word in fake.words]
    usage = _text_piece("", None) | {"choices": [], "usage": _azure_used(fake)}
    return [*events, _data(_text_piece("", "stop")), _data(usage), b"data: [DONE]\n\n"]


# --- Cohere: Chat, version 2. ---------------------------------------------------------------------


def _cohere_used(fake: FakeProvider) -> dict[str, Any]:
    tokens = {"input_tokens": fake.used.prompt, "output_tokens": fake.used.completion}
    return {"billed_units": tokens, "tokens": tokens}


def _cohere_whole(fake: FakeProvider) -> dict[str, Any]:
    content = [{"type": "text", "text": "".join(fake.words)}]
    return {
        "id": "c1",
        "finish_reason": "COMPLETE",
        "message": {"role": "assistant", "content": content},
        "usage": _cohere_used(fake),
    }


def _cohere_events(fake: FakeProvider) -> list[bytes]:
    def event(kind: str, **said: Any) -> bytes:
        return _data({"type": kind, **said}, kind)

    text = {"type": "text", "text": ""}
    begin = {"role": "assistant", "content": [], "tool_calls": [], "citations": []}
    events = [
        event("message-start", id="c1", delta={"message": begin}),
        event("content-start", index=0, delta={"message": {"content": text}}),
    ]
    for word in fake.words:
        events.append(
            event("content-delta", index=0, delta={"message": {"content": {"text": word}}})
        )
    end = {"finish_reason": "COMPLETE", "usage": _cohere_used(fake)}
    return [*events, event("content-end", index=0), event("message-end", id="c1", delta=end)]


def _cohere_vectors(fake: FakeProvider) -> dict[str, Any]:
    vectors = [[0.5, -float(number)] for number in range(len(fake.bodies[-1]["texts"]))]
    return {
        "id": "e1",
        "embeddings": {"float": vectors},
        "meta": {"billed_units": {"input_tokens": fake.used.prompt}},
    }


def _azure_vectors(fake: FakeProvider) -> dict[str, Any]:
    inputs = fake.bodies[-1]["input"]
    data = [
        {"object": "embedding", "index": number, "embedding": [0.5, -float(number)]}
        for number in range(len(inputs))
    ]
    used = {"prompt_tokens": fake.used.prompt, "total_tokens": fake.used.prompt}
    return {"object": "list", "data": data, "model": "embed", "usage": used}


Whole = Callable[[FakeProvider], dict[str, Any]]
Events = Callable[[FakeProvider], list[bytes]]
WHOLE: dict[str, Whole] = {
    "anthropic": _anthropic_whole,
    "gemini": _gemini_whole,
    "bedrock": _bedrock_whole,
    "azure": _azure_whole,
    "text": _text_whole,
    "cohere": _cohere_whole,
}
EVENTS: dict[str, Events] = {
    "anthropic": _anthropic_events,
    "gemini": _gemini_events,
    "bedrock": _bedrock_events,
    "azure": _azure_events,
    "text": _text_events,
    "cohere": _cohere_events,
}
VECTORS: dict[str, Whole] = {"azure": _azure_vectors, "cohere": _cohere_vectors}
ARGUMENTS = ('{"city": ', '"Oslo"}')


def _anthropic_tool(fake: FakeProvider) -> list[bytes]:
    first, *_ = _anthropic_events(fake)
    block = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": block}
    ]
    for piece in ARGUMENTS:
        delta = {"type": "input_json_delta", "partial_json": piece}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events.append({"type": "content_block_stop", "index": 0})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": end, "usage": _anthropic_used(fake)})
    events.append({"type": "message_stop"})
    return [first, *(_data(event, event["type"]) for event in events)]


def _gemini_tool(fake: FakeProvider) -> list[bytes]:
    document = _gemini(fake, "", ends=True)
    call = {"name": "weather", "args": json.loads("".join(ARGUMENTS))}
    document["candidates"][0]["content"]["parts"] = [{"functionCall": call}]
    return [_data(document)]


def _cohere_tool(fake: FakeProvider) -> list[bytes]:
    def event(kind: str, **said: Any) -> bytes:
        return _data({"type": kind, **said}, kind)

    def piece(**said: Any) -> dict[str, Any]:
        return {"message": {"tool_calls": said}}

    begin = piece(id="call_1", type="function", function={"name": "weather", "arguments": ""})
    events = [event("message-start", id="c1", delta={"message": {"role": "assistant"}})]
    events.append(event("tool-plan-delta", delta={"message": {"tool_plan": "I ask."}}))
    events.append(event("tool-call-start", index=0, delta=begin))
    for text in ARGUMENTS:
        events.append(event("tool-call-delta", index=0, delta=piece(function={"arguments": text})))
    events.append(event("tool-call-end", index=0))
    end = {"finish_reason": "TOOL_CALL", "usage": _cohere_used(fake)}
    return [*events, event("message-end", id="c1", delta=end)]


def _bedrock_tool(fake: FakeProvider) -> list[bytes]:
    use = {"toolUse": {"toolUseId": "call_1", "name": "weather"}}
    events: list[tuple[str, dict[str, Any]]] = [
        ("messageStart", {"role": "assistant"}),
        ("contentBlockStart", {"contentBlockIndex": 0, "start": use}),
    ]
    for text in ARGUMENTS:
        delta = {"toolUse": {"input": text}}
        events.append(("contentBlockDelta", {"contentBlockIndex": 0, "delta": delta}))
    events.append(("contentBlockStop", {"contentBlockIndex": 0}))
    events.append(("messageStop", {"stopReason": "tool_use"}))
    events.append(("metadata", {"usage": _bedrock_used(fake), "metrics": {"latencyMs": 1}}))
    return [_event_stream(name, document) for name, document in events]


def _azure_tool(fake: FakeProvider) -> list[bytes]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        return _data(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    begin = {"index": 0, "id": "call_1", "type": "function"}
    call = begin | {"function": {"name": "weather", "arguments": ""}}
    events = [chunk({"role": "assistant", "tool_calls": [call]})]
    for text in ARGUMENTS:
        events.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": text}}]}))
    usage = _data(head | {"choices": [], "usage": _azure_used(fake)})
    return [*events, chunk({}, "tool_calls"), usage, b"data: [DONE]\n\n"]


TOOL_EVENTS: dict[str, Events] = {
    "anthropic": _anthropic_tool,
    "gemini": _gemini_tool,
    "bedrock": _bedrock_tool,
    "azure": _azure_tool,
    "cohere": _cohere_tool,
}
OVERLOADED = {"message": "Overloaded.", "type": "overloaded_error"}
ERRORS = {
    "anthropic": _data({"type": "error", "error": OVERLOADED}, "error"),
    "gemini": _data({"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}),
    "bedrock": _event_stream("modelStreamErrorException", {"message": "Overloaded."}, "exception"),
    "azure": _data({"error": OVERLOADED}),
    "cohere": _data(
        {"type": "message-end", "id": "c1", "delta": {"finish_reason": "ERROR"}}, "message-end"
    ),
}
"""In the midst of a stream."""
HOLDS_AFTER = {"anthropic": 3, "gemini": 1, "bedrock": 2, "azure": 2, "text": 1, "cohere": 3}
"""How many events each has sent with its first word."""
