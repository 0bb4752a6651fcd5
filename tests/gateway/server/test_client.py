"""A client that departs ends the call, whatever the call does with being cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.server.client import Client, Departure, Watch
from gateway.server.listener import HANG_UP


async def _nobody_sends(_: dict[str, Any]) -> None:
    await asyncio.Event().wait()


async def _stays() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def _leaves() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def watch() -> Watch:
    return Watch(0.05, asyncio.get_running_loop().time)


async def run(client: Client, work: Any) -> None:
    """As the endpoint does: the work in its own task, which goes on afterwards."""
    try:
        with client:
            await work
    except asyncio.CancelledError:
        assert client.departure is not None
    finally:
        client.forgive()
    task = asyncio.current_task()
    assert task is not None and not task.cancelling()
    await asyncio.sleep(0)


@pytest.mark.parametrize("lost", [0, 1, 3])
async def test_cancellation_that_is_lost_on_its_way_is_asked_for_again(lost: int) -> None:
    left = lost

    async def work() -> None:
        nonlocal left
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not left:
                    raise
                left -= 1

    client = Client({}, _leaves, _nobody_sends, watch=watch())
    async with asyncio.timeout(30):
        await run(client, work())
    assert (client.departure, left) == (Departure.CLOSED, 0)


async def test_client_that_takes_nothing_is_hung_up_on_and_its_call_cancelled() -> None:
    hung_up = asyncio.Event()
    scope = {"extensions": {HANG_UP: {"now": hung_up.set}}}
    client = Client(scope, _stays, _nobody_sends, watch=watch())
    async with asyncio.timeout(30):
        await run(client, client.send({"type": "http.response.body", "more_body": True}))
    assert client.departure is Departure.SLOW
    assert hung_up.is_set()
