"""Clients that leave: the worker stops, what was received is billed, nothing stays taken."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

import openai
import pytest

from tests.journeys.calls import CHAT, LARGE, NAP, body, nano, opened, rid_of, said
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant

STOPS_WITHIN_S = 20.0
"""A bound for a busy machine; the worker itself stops within one step."""
TRIES = 6


def raw_post(stack: Stack, tenant: Tenant, wanted: dict[str, Any]) -> socket.socket:
    """A connection on which the whole request was sent, and nothing read."""
    payload = json.dumps(wanted).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {tenant.secret}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", stack.port), timeout=60)
    connection.sendall(head.encode() + payload)
    return connection


def booked_of(stack: Stack, tenant: Tenant, count: int) -> list[dict[str, Any]]:
    return stack.wait_until(
        lambda: (found := stack.requests_of(tenant)) and len(found) == count and found,
        60.0,
        f"{count} calls in the ledger",
    )


def tokens_out(stack: Stack) -> int:
    """All tokens that the warm workers of the large model have ever generated."""
    pools = ("large-reserved", "large-spot")
    return sum(s["tokens_out_total"] for pool in pools for s in stack.replica_stats(pool))


def wait_workers_idle(stack: Stack) -> None:
    stack.wait_until(lambda: stack.gauges().running == 0, STOPS_WITHIN_S, stack.gauges)


@pytest.mark.parametrize("stream", [False, True])
def test_client_that_leaves_before_the_first_chunk(
    stack: Stack, tenant: Tenant, stream: bool
) -> None:
    """Every admitted call ends exactly once, whenever its client was noticed to be gone."""
    for attempt in range(8):
        connection = raw_post(stack, tenant, body(LARGE, stream=stream, max_tokens=200))
        time.sleep(0.004 * attempt)
        connection.close()
    wait_workers_idle(stack)
    stack.wait_quiet()
    calls = stack.requests_of(tenant)
    assert 0 < len(calls) <= 8, "who left before it was admitted has no record"
    assert {call["status"] for call in calls} <= {"cancelled", "answered"}
    for call in calls:
        assert (nano(call["cost_usd"]) > 0) == any(call["usage"].values())


def test_sa_client_that_leaves_in_the_middle_of_a_stream(stack: Stack, tenant: Tenant) -> None:
    """The worker generates less than the whole answer; what was received is billed."""
    wanted = body(LARGE, temperature=0, max_tokens=200)
    with stack.openai(tenant.secret) as client:
        answer = client.chat.completions.create(
            model=LARGE, messages=said(), temperature=0, max_tokens=200
        )
    whole = answer.usage.completion_tokens
    for _ in range(TRIES):
        before = tokens_out(stack)
        received, answer_id = leave_after(stack, tenant, wanted, chunks=3)
        wait_workers_idle(stack)
        booked = stack.generation(rid_of(answer_id))
        generated = tokens_out(stack) - before
        assert received <= booked["usage"]["output"] <= generated <= whole
        assert nano(booked["cost_usd"]) > 0
        if booked["status"] == "cancelled" and generated < whole:
            assert booked["error_code"] == "client_closed_request"
            assert booked["attempts"][-1]["outcome"] == "cancelled"
            return
    raise AssertionError(f"in {TRIES} tries no worker stopped before its answer was complete")


def leave_after(
    stack: Stack, tenant: Tenant, wanted: dict[str, Any], *, chunks: int
) -> tuple[int, str]:
    """Read so many chunks with text and close; answers their number and the answer's id."""
    received, answer_id = 0, ""
    with opened(stack, tenant, wanted) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                chunk = json.loads(line.removeprefix("data: "))
                answer_id = chunk["id"]
                received += bool(chunk["choices"][0]["delta"].get("content"))
            if received == chunks:
                break
    return received, answer_id


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelled_task_of_the_async_client_frees_everything(
    stack: Stack, tenant: Tenant, outside: Outside, stream: bool
) -> None:
    """The upstream is held after two words. A stream is left once it has given them to its
    caller; how many have come of a whole answer nobody outside can see."""
    outside.begin(Script(hold_after=2))
    heard: list[str] = []
    has_heard = asyncio.Event()

    async def ask(client: openai.AsyncOpenAI) -> None:
        answer = await client.chat.completions.create(
            model="outside", messages=said(), stream=stream
        )
        if stream:
            async for chunk in answer:
                heard.extend(c.delta.content for c in chunk.choices if c.delta.content)
                if len(heard) == 2:
                    has_heard.set()

    async with stack.async_openai(tenant.secret) as client:
        asked = asyncio.create_task(ask(client))
        await asyncio.to_thread(
            stack.wait_until, lambda: stack.gauges().in_flight == 1, 60, "the call to run"
        )
        if stream:
            await asyncio.wait_for(has_heard.wait(), 60)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    await asyncio.to_thread(
        stack.wait_until, lambda: outside.left == 1, STOPS_WITHIN_S, "the upstream to be left"
    )
    [call] = await asyncio.to_thread(booked_of, stack, tenant, 1)
    assert call["status"] == "cancelled"
    assert call["usage"]["output"] in ({2} if stream else {0, 1, 2})


def test_sa_client_that_leaves_while_it_waits_for_a_cold_worker(
    stack: Stack, tenant: Tenant
) -> None:
    """It leaves the waiting room, and pays nothing: nothing was dispatched. The controller stands
    still, so no replica comes."""
    for stream in (False, True):
        stack.wait_until(lambda: not stack.replicas("nap"), 60, "the pool to go to zero")
        with stack.paused("controller"):
            connection = raw_post(stack, tenant, body(NAP, stream=stream))
            stack.wait_until(lambda: stack.gauges().waiting == 1, 60, "the call to wait")
            connection.close()
            stack.wait_until(lambda: stack.gauges().waiting == 0, STOPS_WITHIN_S, "an empty room")
        stack.wait_quiet()
    for call in booked_of(stack, tenant, 2):
        assert (call["status"], call["cost_usd"]) == ("cancelled", "0.00")
        assert call["usage"] == {"input": 0, "cached_input": 0, "output": 0}


def test_client_that_leaves_after_the_first_keep_alive(stack: Stack, tenant: Tenant) -> None:
    """Its 200 is out already; it has been sent nothing that costs. The controller stands still, so
    no replica comes."""
    stack.wait_until(lambda: not stack.replicas("nap"), 60, "the pool to go to zero")
    with stack.paused("controller"):
        connection = raw_post(stack, tenant, body(NAP, stream=True))
        received = b""
        while b": waiting" not in received:
            more = connection.recv(4096)
            assert more, received
            received += more
        connection.close()
        stack.wait_until(lambda: stack.gauges().waiting == 0, STOPS_WITHIN_S, "an empty room")
    [call] = booked_of(stack, tenant, 1)
    assert received.startswith(b"HTTP/1.1 200")
    assert (call["status"], call["cost_usd"]) == ("cancelled", "0.00")


def test_client_that_leaves_in_the_middle_of_its_body(stack: Stack, tenant: Tenant) -> None:
    connection = socket.create_connection(("127.0.0.1", stack.port), timeout=60)
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {tenant.secret}\r\n"
        'content-length: 500\r\n\r\n{"model": '
    )
    connection.sendall(head.encode())
    connection.close()
    stack.wait_quiet()
    assert stack.requests_of(tenant) == []
    assert stack.call("GET", "/healthz").status_code == 200


def test_sa_many_that_leave_at_once_leave_nothing(stack: Stack, tenant: Tenant) -> None:
    """Twelve streams, each left after its first chunk: exactly one record for each."""

    async def leave_all() -> None:
        async with stack.async_openai(tenant.secret) as client:

            async def leave() -> None:
                async with await client.chat.completions.create(
                    model=LARGE, messages=said(), stream=True
                ) as stream:
                    await anext(aiter(stream))

            await asyncio.gather(*[leave() for _ in range(12)])

    asyncio.run(leave_all())
    wait_workers_idle(stack)
    calls = booked_of(stack, tenant, 12)
    assert {call["status"] for call in calls} <= {"cancelled", "answered"}
    assert all(call["usage"]["input"] + call["usage"]["cached_input"] > 0 for call in calls)
