"""OpenAI's routes over the library, on this machine alone and for whoever knows the secret.

A caller that leaves has its handler cancelled, which closes the connection to the provider.
"""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from providers.account import Account, account_of
from providers.bounds import Bounds
from providers.keys import Keys
from providers.library import Library, chunks_of, whole_of
from providers.refused import CallRefused

URL_HEADER = "x-sluice-provider-url"
KEY_HEADER = "x-sluice-provider-key"
"""The name of a key, never what it holds."""
DRAIN_S = 5.0
EVENTS_MAX = 256
"""That wait to be written, of one stream."""
DONE, END = b"data: [DONE]\n\n", b""
EVENTS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
Answer = Callable[[web.Request, Mapping[str, Any], Account], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(
    library: Library,
    host: str,
    port: int,
    secret: str,
    bounds: Bounds,
    keys: Keys,
) -> AsyncIterator[str]:
    """Listen, and give the address; port 0 is any that is free."""
    server = _Server(library, secret, bounds, keys)
    app = web.Application(client_max_size=bounds.body_bytes_max)
    app.router.add_get("/healthz", server.healthz)
    app.router.add_post("/v1/chat/completions", server.call(server.chat))
    app.router.add_post("/v1/completions", server.call(server.complete))
    app.router.add_post("/v1/embeddings", server.call(server.embed))
    app.router.add_post("/v1/{path:.*}", server.call(server.nothing))
    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, shutdown_timeout=DRAIN_S
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        name = runner.addresses[0]
        yield f"http://{name[0]}:{name[1]}"
    finally:
        await runner.cleanup()


class _Server:
    def __init__(self, library: Library, secret: str, bounds: Bounds, keys: Keys) -> None:
        self._library = library
        self._expected = f"Bearer {secret}".encode()
        self._bounds = bounds
        self._keys = keys
        self._calls = 0

    async def healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"calls": self._calls})

    def call(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            account = Account(None)
            try:
                body = await self._body(request)
                url, name = request.headers.get(URL_HEADER), request.headers.get(KEY_HEADER)
                account = account_of(url, name, self._keys)
                return await self._counted(answer, request, body, account)
            except CallRefused as refused:
                return _refusal(refused, account)

        return handle

    async def chat(
        self, request: web.Request, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        answer = await self._library.chat(body, account, self._bounds.timeout_s)
        return await self._told(request, answer, body, account)

    async def complete(
        self, request: web.Request, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        answer = await self._library.complete(body, account, self._bounds.timeout_s)
        return await self._told(request, answer, body, account)

    async def _told(
        self, request: web.Request, answer: Any, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        if not body.get("stream"):
            return web.json_response(whole_of(answer))
        async with aclosing(chunks_of(answer)) as chunks:
            # Some are asked of the provider with the first chunk: until then it may refuse.
            first = await anext(chunks, None)
            return await _stream(request, first, chunks, account)

    async def embed(
        self, request: web.Request, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        vectors = await self._library.embed(body, account, self._bounds.timeout_s)
        return web.json_response(vectors)

    async def nothing(
        self, request: web.Request, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        raise CallRefused(404, f"The adapters of providers have no {request.path}.")

    async def _counted(
        self, answer: Answer, request: web.Request, body: Mapping[str, Any], account: Account
    ) -> web.StreamResponse:
        if self._calls >= self._bounds.calls_max:
            raise CallRefused(503, "Too many calls of providers are in flight.", retry_after_s="1")
        self._calls += 1
        try:
            return await answer(request, body, account)
        finally:
            self._calls -= 1

    async def _body(self, request: web.Request) -> dict[str, Any]:
        sent = request.headers.get("authorization", "").encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self._expected):
            raise CallRefused(401, "This is for the gateway alone.", code="invalid_api_key")
        try:
            body = json.loads(await request.read())
        except web.HTTPRequestEntityTooLarge as large:
            raise CallRefused(413, "The body is too large.") from large
        except ValueError as wrong:
            raise CallRefused(400, "The body is no JSON.") from wrong
        if not isinstance(body, dict):
            raise CallRefused(400, "The body is no object.")
        return body


async def _stream(
    request: web.Request,
    first: dict[str, Any] | None,
    chunks: AsyncIterator[dict[str, Any]],
    account: Account,
) -> web.StreamResponse:
    """What has come is written at once, however many chunks that are."""
    response = web.StreamResponse(headers=EVENTS)
    await response.prepare(request)
    events: asyncio.Queue[bytes] = asyncio.Queue(EVENTS_MAX)
    reading = asyncio.create_task(_read(first, chunks, events, account))
    try:
        while event := await events.get():
            pieces = [event]
            while not events.empty() and pieces[-1]:
                pieces.append(events.get_nowait())
            await response.write(b"".join(pieces))
            if not pieces[-1]:
                break
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
    await response.write_eof()
    return response


async def _read(
    first: dict[str, Any] | None,
    chunks: AsyncIterator[dict[str, Any]],
    events: asyncio.Queue[bytes],
    account: Account,
) -> None:
    """Into `events`, up to an empty one."""
    try:
        if first is not None:
            await events.put(_event(first))
        async for chunk in chunks:
            await events.put(_event(chunk))
        await events.put(DONE)
    except CallRefused as cut:
        await events.put(b"data: %s\n\n" % cut.body(account.secrets))
    except Exception:
        await events.put(END)
        raise
    await events.put(END)


def _event(chunk: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % json.dumps(chunk).encode()


def _refusal(refused: CallRefused, account: Account) -> web.Response:
    headers = {"content-type": "application/json"}
    if refused.retry_after_s is not None:
        headers["retry-after"] = refused.retry_after_s
    return web.Response(status=refused.status, body=refused.body(account.secrets), headers=headers)
