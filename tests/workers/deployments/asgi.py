"""A client of an ASGI app without a socket, that can leave at any moment."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from workers.deployments.generating import CHOICES_MAX, GeneratingDoors
from workers.deployments.server import WorkerServer
from workers.engines.base import Bound, PromptInvalid
from workers.engines.fake import ScriptedEngine
from workers.sampling import RENDERING, Rendering

SECRET = "a secret made at start"


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Words:
    """A chat whose tokens are the lengths of words."""

    def prompt_token_ids(
        self,
        messages: Iterable[Any],
        tools: Sequence[dict[str, Any]] = (),
        rendering: Rendering = RENDERING,
    ) -> tuple[int, ...]:
        messages = [*messages, *({"content": tool["function"]["name"]} for tool in tools)]
        words = [word for message in messages for word in message["content"].split()]
        if not words:
            raise PromptInvalid("messages is empty")
        return tuple(map(len, words))


class Letters:
    """A tokenizer whose tokens are characters, and 0 in front of them."""

    def token_ids(self, text: str, bound: Bound | None = None) -> tuple[int, ...]:
        return (0, *map(ord, text))


def serve(
    engine: ScriptedEngine,
    clock: Clock | None = None,
    *,
    secret: str = SECRET,
    choices_max: int = CHOICES_MAX,
) -> WorkerServer:
    doors = GeneratingDoors(engine, chat=Words(), text=Letters(), choices_max=choices_max)
    return WorkerServer(engine=engine, doors=doors.routes, secret=secret, now_s=clock or Clock())


class Visit:
    """One request: `parts` are the body parts as they are sent."""

    def __init__(
        self,
        server: WorkerServer,
        method: str,
        path: str,
        body: object = None,
        *,
        secret: str | None = SECRET,
        root_path: str = "",
    ) -> None:
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        self._inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._inbox.put_nowait({"type": "http.request", "body": raw, "more_body": False})
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.parts: list[bytes] = []
        self._news = asyncio.Event()
        scope = {
            "type": "http",
            "method": method,
            "path": root_path + path,
            "root_path": root_path,
            "headers": [(b"x-sluice-worker-secret", secret.encode())] if secret else [],
        }
        self.task = asyncio.ensure_future(server(scope, self._inbox.get, self._send))

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = dict(message["headers"])
        else:
            self.parts.append(message.get("body", b""))
        self._news.set()

    def leave(self) -> None:
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def until_open(self) -> None:
        """Until the answer has a status."""
        async with asyncio.timeout(30):
            while not self.status:
                self._news.clear()
                await self._news.wait()

    async def until_parts(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.parts) < count:
                self._news.clear()
                await self._news.wait()

    async def end(self) -> "Visit":
        async with asyncio.timeout(30):
            await self.task
        return self

    def json(self) -> Any:
        return json.loads(b"".join(self.parts))

    def events(self) -> list[Any]:
        lines = b"".join(self.parts).decode().split("\n\n")
        data = [line.removeprefix("data: ") for line in lines if line]
        return [line if line == "[DONE]" else json.loads(line) for line in data]
