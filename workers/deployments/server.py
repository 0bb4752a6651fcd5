"""The worker as a raw ASGI app. Any server can mount it, and ASGI's lifespan starts and stops the
engine. Owns who may come in (secret, drain) and what the controller asks. The routes of calls are
in `doors`."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import msgspec

from routing.gauges import GAUGES
from workers.deployments.bodies import DrainBody, decoded
from workers.deployments.calls import OpenCalls
from workers.deployments.errors import HttpError
from workers.deployments.exchange import (
    ClientGone,
    Door,
    Doors,
    Exchange,
    Message,
    Receive,
    Scope,
    Send,
)
from workers.deployments.rest import Rest
from workers.engines.base import EngineError, EngineLife

SECRET_HEADER = b"x-sluice-worker-secret"


class WorkerServer:
    """`doors` are the routes of calls. They belong to what `engine` makes: text or vectors.
    `fetch_s`: how long its checkpoint took to come. `started` is called once the engine runs."""

    def __init__(
        self,
        *,
        engine: EngineLife,
        doors: Doors,
        secret: str,
        now_s: Callable[[], float],
        fetch_s: float = 0.0,
        started: Callable[[], None] = lambda: None,
    ) -> None:
        if not secret:
            raise ValueError("a worker needs a secret")
        self._engine = engine
        self._tell_started = started
        self._secret = secret.encode()
        self._fetch_ms = round(fetch_s * 1000)
        self._now_s = now_s
        self._warm_since_s = now_s()
        self._calls = OpenCalls(now_s)
        self._rest = Rest(engine, self._calls)
        self._routes: dict[tuple[str, str], Callable[[Exchange], Awaitable[None]]] = {
            **{("POST", path): self._opened(door) for path, door in doors.items()},
            ("GET", "/v1/sluice/stats"): self._stats,
            ("POST", "/v1/sluice/drain"): self._drain,
            ("GET", "/v1/sluice/health"): self._health,
        }

    def _opened(self, door: Door) -> Callable[[Exchange], Awaitable[None]]:
        return lambda exchange: door(exchange, self._calls)

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
                await self._rest.leave()
                await self._engine.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _started(self) -> Message:
        try:
            await self._engine.start()
        except EngineError as error:
            return {"type": "lifespan.startup.failed", "message": str(error)}
        self._warm_since_s = self._now_s()
        self._tell_started()
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
        secret = next((value for name, value in scope["headers"] if name == SECRET_HEADER), b"")
        if not hmac.compare_digest(secret, self._secret):
            raise HttpError(401, "invalid_worker_secret", "the worker secret is missing or wrong")

    def _route(self, scope: Scope) -> Callable[[Exchange], Awaitable[None]]:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        route = self._routes.get((scope["method"], path))
        if route is None:
            raise HttpError(404, "not_found", f"no {scope['method']} {path} here")
        return route

    async def _stats(self, exchange: Exchange) -> None:
        stats = self._engine.stats()
        # The engine counts sequences, and a call of several waits only while all of them do.
        queued = min(stats.queued, self._calls.unbegun)
        body = {
            "running": len(self._calls) - queued,
            "queued": queued,
            "queues": self._calls.queues(queued),
            "gauges": {name: getattr(stats, name) for name in GAUGES},
            "tokens_out_total": stats.tokens_out_total,
            "tokens_prefilled_total": stats.tokens_prefilled_total,
            "tokens_cached_total": stats.tokens_cached_total,
            "requests_total": stats.requests_total,
            "decode_steps_total": stats.decode_steps_total,
            "busy_us_total": stats.busy_us_total,
            "warm_ms": round((self._now_s() - self._warm_since_s) * 1000),
            "fetch_ms": self._fetch_ms,
            "last_active_ms_ago": round(self._calls.idle_s * 1000),
            "draining": self._calls.draining,
            "asleep": self._rest.is_asleep,
            "waking": self._rest.is_waking,
        }
        await exchange.answer(200, msgspec.json.encode(body))

    async def _drain(self, exchange: Exchange) -> None:
        raw = await exchange.body()
        body = decoded(raw, DrainBody) if raw else DrainBody()
        self._calls.draining = body.draining
        self._rest.order(asleep=body.asleep)
        await self._stats(exchange)

    async def _health(self, exchange: Exchange) -> None:
        reason = self._engine.health()
        if reason is not None:
            raise HttpError(503, "engine_failed", reason)
        await exchange.answer(200, msgspec.json.encode({"status": "ok"}))
