"""Bodies: bounded in size and time, and none is read for who may not send it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.console.login import FORM_BYTES_MAX
from tests.gateway.edge import API_KEY, Edge, edge, post_scope
from tests.gateway.limits.test_limits import one
from tests.redis_server import RedisServer

__all__ = ["one"]

ORGANIZATIONS, LOGIN = "/admin/v1/organizations", "/console/login"


class Sender:
    """Sends a body that does not end, piece by piece, and keeps the answer."""

    def __init__(self, piece: bytes = b"x" * 100, pieces: float = float("inf")) -> None:
        self.piece = piece
        self.pieces = pieces
        self.taken = 0
        self.sent: list[dict[str, Any]] = []

    async def __call__(self, app: Any, path: str, **headers: str) -> int:
        scope = post_scope(path, [("content-type", "application/json"), *headers.items()])
        async with asyncio.timeout(60):
            await app(scope, self._receive, self._send)
        status: int = self.sent[0]["status"]
        return status

    async def _receive(self) -> dict[str, Any]:
        if not self.pieces:
            await asyncio.Event().wait()
        self.pieces -= 1
        self.taken += len(self.piece)
        return {"type": "http.request", "body": self.piece, "more_body": True}

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


@pytest.mark.parametrize("key", [{}, {"authorization": "Bearer wrong"}], ids=["none", "wrong"])
async def test_no_body_is_read_for_whom_the_admin_key_is_missing(
    one: Edge, key: dict[str, str]
) -> None:
    sender = Sender()
    assert await sender(one.app, ORGANIZATIONS, **key) == 401
    assert sender.taken == 0
    assert b'"invalid_api_key"' in sender.sent[1]["body"]


async def test_form_of_the_console_is_read_no_further_than_its_own_bound(one: Edge) -> None:
    sender = Sender()
    assert await sender(one.app, LOGIN) == 401
    assert sender.taken <= FORM_BYTES_MAX + 100


async def test_body_of_who_has_the_key_is_bounded_in_size(one: Edge) -> None:
    sender = Sender(b"x" * (1 << 20))
    assert await sender(one.app, ORGANIZATIONS, authorization="Bearer admin") == 413


async def test_body_that_comes_too_slowly_is_given_up(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """It would be read for ever."""
    keys = {ORGANIZATIONS: "admin", LOGIN: "", "/v1/quote": API_KEY, "/v1/tokenize": API_KEY}
    async with edge(redis_server, redis, tmp_path, gateway={"body_timeout_s": 0.05}) as slow:
        for path, key in keys.items():
            sender = Sender(b"{", pieces=1)
            assert await sender(slow.app, path, authorization=f"Bearer {key}") == 408, path
