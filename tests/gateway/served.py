"""An application of this process behind a real server, so that clients and fuzzers can reach it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from gateway.server.heads import Heads
from gateway.server.listener import protocol
from tests.stack_process import free_port

HEADS = Heads(65536, 30.0, lambda: "req_1", lambda: 0.0)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The base URL of a server as `python -m gateway` makes it; the lifespan is the caller's."""
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host="127.0.0.1",
            port=port,
            http=protocol(write_buffer_bytes=65536, unread_timeout_s=30.0, heads=HEADS),
            ws="none",
            lifespan="off",
            access_log=False,
            server_header=False,
            log_config=None,
            timeout_graceful_shutdown=1,
        )
    )
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    running = asyncio.create_task(server.serve())
    async with asyncio.timeout(30):
        while not server.started:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running


class _no_signals:
    """The signals of a test run are pytest's."""

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None: ...
