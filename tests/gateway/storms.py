"""A storm: calls of every route at once, whose clients leave at any step and whose workers fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from gateway.upstream import fake
from tests.gateway.edge import (
    API_KEY,
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    Edge,
    Response,
    body,
    story,
)

USERS = ("alice", "bob")
SAID = [{"role": "user", "content": "Tell a story."}]
ROUTES: dict[str, dict[str, Any]] = {
    CHAT: body(stream_options=None, max_tokens=600),
    COMPLETIONS: {"model": "tale", "prompt": "Once", "max_tokens": 8},
    EMBEDDINGS: {"model": "vectors", "input": ["one two", "three"]},
    "/v1/responses": {"model": "tale", "input": "Tell a story.", "max_output_tokens": 64},
    "/v1/messages": {"model": "tale", "messages": SAID, "max_tokens": 64},
}
AT_ONCE = 20
DRAINING = {"message": "on its way down", "code": "worker_draining"}


@dataclass(slots=True)
class Storm:
    """`departed` counts the clients that left before their answer was whole, and no others."""

    one: Edge
    rng: Random
    departed: int = 0
    calls: int = 0

    async def rage(self, until: Callable[[Storm], bool]) -> None:
        self.one.upstream.behaviour = self._behave
        while not until(self):
            await asyncio.gather(*(self._call() for _ in range(AT_ONCE)))
            self.calls += AT_ONCE
            self.one.upstream.requests.clear()
        await self.one.settled()

    async def _call(self) -> None:
        rng = self.rng
        leave = self._leaving() if rng.random() < 0.7 else None
        path = rng.choice(list(ROUTES))
        user = rng.choice(USERS)
        named = {"metadata": {"user_id": user}} if path == "/v1/messages" else {"user": user}
        wanted = ROUTES[path] | named
        if path != EMBEDDINGS:
            wanted["stream"] = rng.random() < 0.7
        if path in (CHAT, COMPLETIONS):
            wanted["n"] = rng.choice([1, 1, 2])
        headers = {"x-sluice-deadline-ms": "400", "x-api-key": API_KEY}
        if rng.random() < 0.3:
            headers["idempotency-key"] = f"key {rng.randrange(20)}"
        response = await self.one.post(wanted, path=path, leave=leave, headers=headers)
        assert response.status != 500
        if b"[DONE]" in response.body:
            assert response.events[-1] == "[DONE]"
            assert not any("error" in chunk for chunk in response.chunks)
        assert response.status is not None or leave is not None

    def _leaving(self) -> Callable[[Response], Awaitable[None]]:
        """After so many turns of the loop, or once so much has been sent."""
        turns = int(2 ** self.rng.uniform(0, 11))
        sends = self.rng.randrange(8) if self.rng.random() < 0.4 else None

        async def leave(response: Response) -> None:
            if sends is None:
                for _ in range(turns):
                    await asyncio.sleep(0)
            else:
                while response.sends < sends and not response.is_complete:  # noqa: ASYNC110
                    await asyncio.sleep(0)
            self.departed += not response.is_complete

        return leave

    def _behave(self, request: fake.Request) -> fake.Script:
        """What a worker may do to one call, good and bad."""
        good = [vectors()] if request.path == EMBEDDINGS else stories()
        return self.rng.choice([*good, *FAILING])


def vectors() -> fake.Script:
    return fake.stream(fake.own_vectors({0: [0.6, 0.8], 1: [0.8, 0.6]}, 5), fake.DONE)


def stories() -> list[fake.Script]:
    return [
        story(),
        story(frames=12, tokens_a_frame=30),
        story(pause_s=0.002),
        two_stories(frames=6),
    ]


def two_stories(frames: int) -> fake.Script:
    """Of two choices that take turns."""
    parts = [
        fake.own_frame(
            f"word{n} ", n + 1, index=n % 2, finish="stop" if n >= 2 * frames - 2 else None
        )
        for n in range(2 * frames)
    ]
    return fake.stream(*parts, fake.DONE)


FAILING = [
    fake.stream(fake.own_frame("a", 1), then=[fake.Reset()]),
    fake.stream(fake.own_frame("a", 1), then=[fake.Close()]),
    fake.stream(fake.own_frame("a", 1), b"data: {nonsense\n\n"),
    fake.Script([fake.Reset()], status=None),
    fake.refusal(503, DRAINING),
    fake.refusal(503, {"message": "busy"}),
    fake.refusal(400, {"message": "no"}),
    fake.refusal(500, b"oops"),
    fake.stream(),
]
