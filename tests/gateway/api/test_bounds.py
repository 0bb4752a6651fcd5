"""A body that is too large is refused before it is kept, whoever sends it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from gateway.app import create_app
from gateway.parts import Outside
from gateway.settings import GatewaySettings, Settings

BOUND = 1000


async def test_stranger_cannot_make_the_gateway_keep_a_large_body(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, gateway=GatewaySettings(body_bytes_max=BOUND))
    outside = Outside(lambda: 1e9, Random(1), Random(2).randbytes, {})
    app: Any = create_app(settings, outside)
    taken = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal taken
        taken += 100
        return {"type": "http.request", "body": b"x" * 100, "more_body": taken < 100 * BOUND}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/admin/v1/organizations",
        "raw_path": b"/admin/v1/organizations",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    assert (sent[0]["status"], taken) == (413, BOUND + 100)
    assert b'"error"' in sent[1]["body"]
