"""One cheap call of an external pool, to see what comes: what an operator asks before tenants do.

Sent as any call of the pool is sent, and charged to nobody: our account with its server pays.
"""

from dataclasses import dataclass

from billing.types import Usage
from gateway.audio.length import WAV, Audio
from gateway.audio.silence import Silence
from gateway.audio.speech import parse_speech
from gateway.audio.transcription import TRANSCRIPTIONS, Transcription
from gateway.call.frame import Frame
from gateway.call.request import Payload
from gateway.images.generations import parse_images
from gateway.scores.moderations import parse_moderation
from gateway.scores.rerank import parse_rerank
from gateway.upstream.answer import Misconfigured, Rejected, UpstreamError
from gateway.upstream.fault import Fault
from gateway.upstream.openai import OpenAIAnswer, OpenAIUpstream, Patience, Target
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.embeddings import parse_embedding
from routing.types import Clock, Task

OUTPUT_TOKENS = 16
"""Some servers refuse fewer."""
PATIENCE = Patience(first_token_s=20.0, idle_s=10.0, connect_s=10.0)
"""Of whoever waits for it at a terminal."""
NOT_SET_UP = "not_set_up"
ANSWERED = "answered"
NO_CONNECTION = "Nobody answers there: see base_url, and whether the server runs."
BROKEN = "The server is at fault, or does not speak OpenAI's API: see its own log."
HINTS = {
    400: "The server does not take a plain call: see its words.",
    401: "The key is wrong or missing: see api_key_env.",
    402: "The account of the key has no money.",
    403: "The key may not use this model.",
    404: "There is no such model or URL: see upstream_model and base_url.",
    405: "The URL takes no calls: see base_url.",
    429: "The server is busy, or the limit of the account is reached.",
    503: "The server is busy or starting.",
}
"""What to look at, by status."""


@dataclass(frozen=True, slots=True)
class PoolCheck:
    """What came. `outcome` is that of an attempt, or NOT_SET_UP where nothing was sent."""

    outcome: str
    hint: str
    status: int | None = None
    detail: str | None = None
    took_s: float = 0.0
    usage: Usage | None = None

    @property
    def is_ok(self) -> bool:
        return self.outcome == ANSWERED

    @property
    def took_ms(self) -> int:
        return round(self.took_s * 1000)


def cheap_call(task: Task) -> Payload:
    if task is Task.EMBED:
        return parse_embedding(b'{"model": "x", "input": "ping"}').payload
    if task is Task.RERANK:
        body = b'{"model": "x", "query": "ping", "documents": ["pong"]}'
        return parse_rerank(body).payload
    if task is Task.MODERATE:
        return parse_moderation(b'{"model": "x", "input": "ping"}').payload
    if task is Task.SPEAK:
        body = b'{"model": "x", "input": "ping", "voice": "alloy"}'
        return parse_speech(body).payload
    if task is Task.TRANSCRIBE:
        audio = Audio(Silence(), WAV, 1, 1)
        return Transcription(path=TRANSCRIPTIONS, audio=audio, fields={})
    if task is Task.IMAGE:
        return parse_images(b'{"model": "x", "prompt": "a dot"}').payload
    body = b'{"model": "x", "messages": [{"role": "user", "content": "ping"}]}'
    return parse_chat(body).payload


async def check(upstream: OpenAIUpstream, target: Target, clock: Clock) -> PoolCheck:
    """Bounded by PATIENCE, which the target has."""
    began_s = clock()
    try:
        async with await upstream.open(target) as answer:
            usage = await _usage_of(answer)
    except UpstreamError as failed:
        fault = failed.fault or Fault(None, str(failed))
        hint = _hint(failed, fault.status)
        return PoolCheck(failed.outcome, hint, fault.status, fault.detail, clock() - began_s)
    return PoolCheck(ANSWERED, "", 200, None, clock() - began_s, usage)


async def _usage_of(answer: OpenAIAnswer) -> Usage | None:
    frames = [await answer.document()] if answer.is_document else []
    if not frames:
        answer.begun()
        while more := await answer.more():
            frames += more
    return _last_usage(frames)


def _last_usage(frames: list[Frame]) -> Usage | None:
    return next((frame.usage for frame in reversed(frames) if frame.usage is not None), None)


def _hint(failed: UpstreamError, status: int | None) -> str:
    if status is None:
        return BROKEN if failed.outcome == "cut" else NO_CONNECTION
    if status in HINTS:
        return HINTS[status]
    if isinstance(failed, Misconfigured):
        return "The server refuses us: see base_url, upstream_model and api_key_env."
    return HINTS[400] if isinstance(failed, Rejected) else BROKEN
