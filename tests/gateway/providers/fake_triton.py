"""A small server of Triton's generate extension, built from its published document and from what a
real one was seen to say (`tests/providers/test_triton_server.py`): it is none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

HOLD_S = 20.0
TRACE = "Traceback (most recent call last):\n  File /opt/model.py, line 1\nRuntimeError: broke"


@dataclass
class FakeTriton:
    """`counts` are what it says that it used; with `holds` it stops after its first word until its
    caller leaves. `fails` is where its model breaks: at once, or in the midst."""

    words: tuple[str, ...] = ("Once ", "upon ", "a time.")
    counts: bool = False
    holds: bool = False
    fails: str | None = None
    reason: str | None = None
    url: str = ""
    paths: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.paths.append(request.path)
        self.bodies.append(await request.json())
        if request.match_info["model"] != "story":
            words = f"Request for unknown model: '{request.match_info['model']}' is not found"
            return web.json_response({"error": words}, status=404)
        is_stream = request.match_info["verb"] == "generate_stream"
        try:
            return await (self._stream(request) if is_stream else self._whole())
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise

    async def _whole(self) -> web.Response:
        self.begun.set()
        if self.holds:
            await asyncio.sleep(HOLD_S)
        if self.fails:
            return web.json_response({"error": TRACE}, status=400)
        return web.json_response(self._said("".join(self.words), len(self.words)))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        status = 400 if self.fails == "at once" else 200
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        response = web.StreamResponse(status=status, headers=headers)
        await response.prepare(request)
        for number, word in enumerate(self.words):
            if status == 200:
                await response.write(_event(self._said(word, 1)))
            if self.fails and (status != 200 or number == 1):
                await response.write(_event({"error": TRACE}))
                break
            if self.holds:
                self.begun.set()
                await asyncio.sleep(HOLD_S)
        await response.write_eof()
        return response

    def _said(self, text: str, tokens: int) -> dict[str, Any]:
        said: dict[str, Any] = {"model_name": "story", "model_version": "1", "text_output": text}
        if self.counts:
            said |= {"num_input_tokens": 7, "num_output_tokens": tokens}
        return said | ({"finish_reason": self.reason} if self.reason else {})


def _event(document: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(document)}\n\n".encode()


@asynccontextmanager
async def fake_triton(**said: Any) -> AsyncIterator[FakeTriton]:
    fake = FakeTriton(**said)
    app = web.Application()
    app.router.add_post("/v2/models/{model}/{verb}", fake.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield fake
    finally:
        await runner.cleanup()
