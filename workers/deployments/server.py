"""The worker's HTTP contract as a raw ASGI app: any server can mount it, and it starts and stops
the engine by ASGI's lifespan. Owns admission (secret, drain) and the life of a call; guards the law
that a reader who leaves aborts the sequence within one step, whether the server says so by a
disconnect message or by cancelling."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec

from workers.deployments.wire import (
    DONE,
    ChatBody,
    HttpError,
    chat_body,
    drain_body,
    error_event,
    frame_event,
    generation_request,
    refusal,
)
from workers.engines.base import Chat, Engine, EngineError, FrameStream, PromptInvalid

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SECRET_HEADER = b"x-sluice-worker-secret"
BODY_BYTES_MAX = 16 * 1024 * 1024
PROMPT_CHARS_INLINE = 4096
JSON = (b"content-type", b"application/json")
SSE = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the way to answer it."""

    scope: Scope
    receive: Receive
    send: Send

    async def body(self) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > BODY_BYTES_MAX:
                raise HttpError(413, "body_too_large", f"more than {BODY_BYTES_MAX} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def answer(self, status: int, body: bytes) -> None:
        headers = [JSON, (b"content-length", str(len(body)).encode())]
        await self.start(status, headers)
        await self.send({"type": "http.response.body", "body": body})

    async def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def part(self, body: bytes, *, more: bool = True) -> None:
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def disconnected(self) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass


class ClientGone(Exception):
    """The client left before its request was read."""


class WorkerServer:
    def __init__(
        self, *, engine: Engine, chat: Chat, secret: str, now_s: Callable[[], float]
    ) -> None:
        if not secret:
            raise ValueError("a worker needs a secret")
        self._engine = engine
        self._chat = chat
        self._secret = secret.encode()
        self._now_s = now_s
        self._draining = False
        self._calls_open = 0
        self._active_s = now_s()
        self._routes = {
            ("POST", "/v1/chat/completions"): self._chat_completions,
            ("GET", "/v1/sluice/stats"): self._stats,
            ("POST", "/v1/sluice/drain"): self._drain,
            ("GET", "/v1/sluice/health"): self._health,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._exchange(Exchange(scope, receive, send))

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send(await self._started())
            else:
                await self._engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _started(self) -> Message:
        try:
            await self._engine.start()
        except EngineError as error:
            return {"type": "lifespan.startup.failed", "message": str(error)}
        return {"type": "lifespan.startup.complete"}

    async def _exchange(self, exchange: Exchange) -> None:
        try:
            self._authorize(exchange.scope)
            await self._route(exchange.scope)(exchange)
        except HttpError as error:
            await exchange.answer(error.status, error.body())
        except ClientGone:
            pass  # there is nobody to tell, and nothing was begun

    def _authorize(self, scope: Scope) -> None:
        given = next((value for name, value in scope["headers"] if name == SECRET_HEADER), b"")
        if not hmac.compare_digest(given, self._secret):
            raise HttpError(401, "invalid_worker_secret", "the worker secret is missing or wrong")

    def _route(self, scope: Scope) -> Callable[[Exchange], Awaitable[None]]:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        route = self._routes.get((scope["method"], path))
        if route is None:
            raise HttpError(404, "not_found", f"no {scope['method']} {path} here")
        return route

    async def _chat_completions(self, exchange: Exchange) -> None:
        body = chat_body(await exchange.body())
        self._refuse_if_draining()
        prompt_token_ids = await self._prompt(body)
        self._refuse_if_draining()
        # From this check to the count below nothing awaits, so a drain sees a call or refuses it.
        try:
            stream = self._engine.generate(generation_request(body, prompt_token_ids))
        except EngineError as error:
            raise refusal(error) from error
        self._calls_open += 1
        try:
            async with aclosing(stream):
                await self._relay(exchange, stream, body.sluice.request_id)
        finally:
            self._calls_open -= 1
            self._active_s = self._now_s()

    def _refuse_if_draining(self) -> None:
        if self._draining:
            raise HttpError(503, "worker_draining", "this worker takes no new calls")

    async def _prompt(self, body: ChatBody) -> tuple[int, ...]:
        """Short prompts are tokenized in less time than it takes to reach another thread."""
        characters = sum(len(str(message.get("content"))) for message in body.messages)
        try:
            if characters <= PROMPT_CHARS_INLINE:
                return self._chat.prompt_token_ids(body.messages)
            return await asyncio.to_thread(self._chat.prompt_token_ids, body.messages)
        except PromptInvalid as error:
            raise refusal(error) from error

    async def _relay(self, exchange: Exchange, stream: FrameStream, request_id: str) -> None:
        await exchange.start(200, SSE)
        watch = asyncio.create_task(self._abort_when_gone(exchange, request_id))
        try:
            async for frame in stream:
                await exchange.part(frame_event(frame))
            await exchange.part(DONE, more=False)
        except EngineError as error:
            await exchange.part(error_event(refusal(error)), more=False)
        finally:
            watch.cancel()

    async def _abort_when_gone(self, exchange: Exchange, request_id: str) -> None:
        await exchange.disconnected()
        self._engine.abort(request_id)

    async def _stats(self, exchange: Exchange) -> None:
        stats = self._engine.stats()
        queued = min(stats.queued, self._calls_open)
        idle_s = 0.0 if self._calls_open else self._now_s() - self._active_s
        body = {
            "running": self._calls_open - queued,
            "queued": queued,
            "kv_used": stats.kv_tokens_used,
            "kv_total": stats.kv_tokens_total,
            "tokens_out_total": stats.tokens_out_total,
            "tokens_cached_total": stats.tokens_cached_total,
            "requests_total": stats.requests_total,
            "decode_steps_total": stats.decode_steps_total,
            "last_active_ms_ago": round(idle_s * 1000),
            "draining": self._draining,
        }
        await exchange.answer(200, msgspec.json.encode(body))

    async def _drain(self, exchange: Exchange) -> None:
        self._draining = drain_body(await exchange.body()).draining
        await self._stats(exchange)

    async def _health(self, exchange: Exchange) -> None:
        reason = self._engine.health()
        if reason is not None:
            raise HttpError(503, "engine_failed", reason)
        await exchange.answer(200, msgspec.json.encode({"status": "ok"}))
