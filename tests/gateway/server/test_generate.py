"""What the generating endpoint does before a journey begins."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.idempotency.once import Once
from gateway.pipeline import Pipeline
from gateway.server.endpoint import Generating
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.reply import ReplySettings


class KnowsEverybody:
    async def authenticate(self, headers: object) -> None:
        return None


async def test_body_that_does_not_come_is_not_waited_for() -> None:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(3600)
        raise AssertionError

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def no_note(_call: object) -> str:
        return ""

    endpoint = Generating(
        cast(Pipeline, KnowsEverybody()),
        parse=parse_chat,
        queue_note=no_note,
        reply_settings=ReplySettings(),
        body_bytes_max=1024,
        body_timeout_s=0.05,
        slow_reader_timeout_s=5.0,
        once=cast(Once, None),
        clock=lambda: 1e9,
        new_id=lambda: "req_1",
        note=lambda _: None,
    )
    await asyncio.wait_for(endpoint({"headers": []}, receive, send), 30)
    assert sent[0]["status"] == 408
    assert b'"error"' in sent[1]["body"]
