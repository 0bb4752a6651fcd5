"""A receiver of webhooks that is real: it answers what a test says, or does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

ANSWER_S = 30.0


@dataclass(slots=True)
class Received:
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


@dataclass(slots=True)
class Receiver:
    """`answer` is what is sent back, in bytes; None is silence."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    answer: Callable[[], bytes | None] = lambda: b"HTTP/1.1 204 No Content\r\n\r\n"
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def got(self, number: int) -> None:
        """Wait until it has so many."""
        while len(self.received) < number:
            self.came.clear()
            await self.came.wait()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        pairs = (line.split(": ", 1) for line in head[1:] if line)
        headers = {name.lower(): value for name, value in pairs}
        body = await reader.readexactly(int(headers["content-length"]))
        self.received.append(Received(headers, body))
        self.came.set()
        answer = self.answer()
        if answer is None:
            await reader.read()  # until the other side leaves
        else:
            writer.write(answer)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    one = Receiver()
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hooks?a=1"
    try:
        yield one
    finally:
        server.close()
        server.close_clients() if hasattr(server, "close_clients") else None
