"""The one adapter for OpenAI-compatible servers: own workers and external URLs alike.

An own worker's frames carry a `sluice` object (token ids, cumulative usage, position); an
external server's are plainer, with usage in the last chunk. Bytes may be cut anywhere by TCP;
a malformed event, an early end or a silence beyond the idle bound is `Cut`.
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Annotated, Any, Self

import aiohttp
import msgspec

from billing.limits.gcra import UNITS_MAX
from billing.types import Usage
from gateway.meter import Frame
from gateway.upstream.answer import Cut, Rejected, Rejection, Saturated, Unreachable
from gateway.wire.sse import DONE, EventTooLarge, SseDecoder

ERROR_BODY_MAX = 64 * 1024
SATURATED = (429, 503)
FORMER_TRY = "request_in_flight"
"""The worker has not yet let go of this call's former try."""
NOT_THE_CALLERS_FAULT = (401, 403, 404, 408)
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Target:
    """Where an attempt goes: the URL, the headers and the JSON body to post."""

    url: str
    headers: Mapping[str, str]
    body: bytes


class OpenAIUpstream:
    """Opens streams over one shared client session. Times are bounds in seconds."""

    def __init__(
        self, session: aiohttp.ClientSession, *, connect_timeout_s: float, idle_timeout_s: float
    ) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=connect_timeout_s, sock_read=idle_timeout_s
        )

    async def open(self, target: Target) -> "OpenAIAnswer":
        """Post and return once the status is 200; raises one of the UpstreamErrors."""
        try:
            response = await self._session.post(
                target.url,
                data=target.body,
                headers=target.headers,
                timeout=self._timeout,
                allow_redirects=False,
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as refused:
            raise Unreachable(str(refused)) from refused
        except (aiohttp.ClientError, TimeoutError, OSError) as broken:
            raise Cut(f"no answer: {broken!r}") from broken
        if response.status == 200:
            return OpenAIAnswer(response)
        try:
            raise await _refusal(response)
        finally:
            response.close()


class OpenAIAnswer:
    """One opened stream; see `Answer`."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None and self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    async def frames(self) -> AsyncGenerator[Frame]:
        decoder = SseDecoder()
        finished = False
        try:
            async for received in self._response.content.iter_any():
                for payload in decoder.feed(received):
                    if payload == DONE:
                        if not finished:
                            raise Cut("[DONE] without a finish reason")
                        return
                    frame = read_frame(payload)
                    finished = finished or frame.finish_reason is not None
                    yield frame
        except (aiohttp.ClientError, OSError, TimeoutError, asyncio.IncompleteReadError) as broken:
            raise Cut(f"the stream broke: {broken!r}") from broken
        except EventTooLarge as oversized:
            raise Cut("an event was larger than any event may be") from oversized
        if not finished:
            raise Cut("the stream ended without a finish reason")


def read_frame(payload: bytes) -> Frame:
    """One event's payload as a Frame; raises Cut where it is not a chunk of the OpenAI shape."""
    try:
        chunk = msgspec.json.decode(payload, type=_Chunk)
    except UNREADABLE as malformed:
        raise Cut(f"a malformed chunk: {malformed}") from malformed
    if chunk.error is not None:
        raise Cut(f"the upstream reported: {chunk.error.get('message')}")
    choice = chunk.choices[0] if chunk.choices else _Choice()
    if not isinstance(choice.delta.get("content"), str | None):
        raise Cut("a malformed chunk: its content is no text")
    return Frame(
        delta=choice.delta,
        finish_reason=choice.finish_reason,
        usage=_own_usage(chunk.sluice) if chunk.sluice else _plain_usage(chunk.usage),
        position=chunk.sluice.position if chunk.sluice else None,
    )


Count = Annotated[int, msgspec.Meta(ge=0, le=UNITS_MAX // 3)]
"""What an upstream says it used is charged, so it is not believed below zero or beyond reason:
three such counts can still be settled together."""


class _Choice(msgspec.Struct):
    delta: dict[str, object] = {}
    finish_reason: str | None = None


class _OwnUsage(msgspec.Struct):
    input: Count
    cached_input: Count
    output: Count


class _Sluice(msgspec.Struct):
    position: Count
    usage: _OwnUsage


class _PromptDetails(msgspec.Struct):
    cached_tokens: Count | None = 0


class _PlainUsage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count = 0
    prompt_tokens_details: _PromptDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []
    sluice: _Sluice | None = None
    usage: _PlainUsage | None = None
    error: dict[str, Any] | None = None


def _own_usage(sluice: _Sluice) -> Usage:
    used = sluice.usage
    return Usage(input=used.input, cached_input=used.cached_input, output=used.output)


def _plain_usage(usage: _PlainUsage | None) -> Usage | None:
    """OpenAI counts cached tokens inside the prompt; ours are disjoint."""
    if usage is None:
        return None
    details = usage.prompt_tokens_details
    cached = min((details.cached_tokens or 0) if details else 0, usage.prompt_tokens)
    return Usage(
        input=usage.prompt_tokens - cached, cached_input=cached, output=usage.completion_tokens
    )


async def _refusal(response: aiohttp.ClientResponse) -> Unreachable | Saturated | Rejected | Cut:
    """The error that a status other than 200 stands for."""
    error = await _error_object(response)
    message = str(error.get("message") or f"status {response.status}")
    code = _word(error.get("code"))
    if code == "worker_draining":
        return Unreachable(message)
    if response.status in SATURATED or code == FORMER_TRY:
        return Saturated(message, _retry_after_s(response.headers.get("retry-after")))
    if 400 <= response.status < 500 and response.status not in NOT_THE_CALLERS_FAULT:
        return Rejected(Rejection(response.status, message, code, _word(error.get("param"))))
    return Cut(f"status {response.status}: {message}")


async def _error_object(response: aiohttp.ClientResponse) -> dict[str, Any]:
    try:
        body = msgspec.json.decode(await _whole_body(response))
    except (aiohttp.ClientError, OSError, TimeoutError, *UNREADABLE):
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


async def _whole_body(response: aiohttp.ClientResponse) -> bytes:
    """All of it, however TCP cut it, but no more than an error can be long."""
    parts = b""
    while len(parts) < ERROR_BODY_MAX and (part := await response.content.readany()):
        parts += part
    return parts


def _word(said: object) -> str | None:
    """Some servers put numbers where OpenAI has words: ours are words or nothing."""
    return said if isinstance(said, str) else None


def _retry_after_s(header: str | None) -> float | None:
    try:
        seconds = float(header) if header else math.nan
    except ValueError:
        return None
    return seconds if 0 <= seconds < math.inf else None
