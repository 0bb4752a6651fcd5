"""The caller's side of one call, while it waits and when it is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.open_call import OpenCall
from gateway.wire.reply import Exchange, ReplySettings, StreamReply


async def _note(_: OpenCall) -> str:
    return "waiting"


async def test_cancellation_while_the_keep_alive_is_stopped_is_never_lost() -> None:
    """At whatever turn of the loop a client leaves, its call ends."""

    async def send(_: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    class Waiting:
        requests = tokens = None

    async def call() -> None:
        reply = StreamReply(
            Exchange("req_1", 0.0, lambda: 0.0, send),
            include_usage=False,
            settings=ReplySettings(commit_after_s=0.0, keep_alive_every_s=0.0),
            queue_note=_note,
        )
        async with reply.kept_waiting(cast(OpenCall, Waiting())):
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    for turns in range(12):
        running = asyncio.create_task(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        assert running.cancelled(), f"the cancellation at turn {turns} was lost"
