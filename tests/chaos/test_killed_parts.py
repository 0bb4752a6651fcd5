"""Each part is killed while streams run; afterwards every law of money holds.

Afterwards always means: every admitted call has exactly one usage event, the net charge of every
answered call is exact, that of a cut call lies between its last checkpoint and what was
generated, no hold is open, and what Redis says is spent equals the ledger. The seed is printed by
the witness' questions; the stack is the real one, and goes on to the next test.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from random import Random

import pytest

from billing.limits.keys import SHARDS, due_key
from tests.chaos.witness import Witness
from tests.stack import Stack

STREAMS = 8
SEED = 20_261_120


@pytest.fixture
def witness(stack: Stack, request: pytest.FixtureRequest) -> Iterator[Witness]:
    """A tenant of its own per test; its calls are audited when the test has done its harm."""
    stack.wait_takes_calls()
    keeper = Witness(stack, stack.tenant(), Random(f"{SEED}-{request.node.name}"))
    yield keeper
    records = keeper.assert_ledger_agrees()
    keeper.assert_nothing_is_missing()
    status, report = stack.ledger_verify()
    assert status == 0, report
    assert records, "no call got far enough to be audited"


async def test_sl_gateway_killed_and_restarted_at_once(stack: Stack, witness: Witness) -> None:
    pid = stack.pids()["gateway"]
    await witness.break_while_streaming(STREAMS, 4, lambda: stack.kill9("gateway"))
    stack.wait_restarted("gateway", pid)
    assert any(not seen.is_whole for seen in witness.seen)


async def test_gateway_killed_and_restarted_after_the_reaper_settled(
    stack: Stack, witness: Witness
) -> None:
    pid = stack.pids()["gateway"]
    with stack.supervisor_paused():
        await witness.break_while_streaming(STREAMS, 4, lambda: stack.kill9("gateway"))
        stack.wait_until(lambda: not open_holds(stack), 60, "the reaper to settle every hold")
    stack.wait_restarted("gateway", pid)


async def test_exact_end_replayed_from_the_spool_corrects_the_estimate(
    stack: Stack, witness: Witness
) -> None:
    """The gateway saw its streams to the end while Redis was silent, and died before settling."""
    redis_pid, gateway_pid = stack.pids()["redis"], stack.pids()["gateway"]
    with stack.supervisor_paused():
        try:
            await witness.break_while_streaming(
                STREAMS, 4, lambda: os.kill(redis_pid, signal.SIGSTOP)
            )
            os.kill(gateway_pid, signal.SIGKILL)
        finally:
            os.kill(redis_pid, signal.SIGCONT)
        stack.wait_until(lambda: not open_holds(stack), 60, "the reaper to settle every hold")
    stack.wait_restarted("gateway", gateway_pid)
    stack.wait_until(
        lambda: all(
            stack.generation(seen.request_id)["usage_source"] == "exact"
            for seen in witness.seen
            if seen.is_whole and seen.request_id
        ),
        60.0,
        "the replayed ends to be booked",
    )


async def test_redis_killed(stack: Stack, witness: Witness) -> None:
    pid = stack.pids()["redis"]
    await witness.break_while_streaming(STREAMS, 4, lambda: stack.kill9("redis"))
    stack.wait_restarted("redis", pid)
    assert all(seen.is_whole for seen in witness.seen), "streams outlive a restart of Redis"


async def test_redis_wiped(stack: Stack, witness: Witness) -> None:
    with stack.redis() as client:
        await witness.break_while_streaming(STREAMS, 4, client.flushall)
    assert all(seen.is_whole for seen in witness.seen), "streams outlive a wiped Redis"


async def test_redis_wiped_and_gateway_killed(stack: Stack, witness: Witness) -> None:
    pid = stack.pids()["gateway"]

    def harm() -> None:
        with stack.redis() as client:
            client.flushall()
        stack.kill9("gateway")

    await witness.break_while_streaming(STREAMS, 4, harm)
    stack.wait_restarted("gateway", pid)


async def test_replica_killed(stack: Stack, witness: Witness) -> None:
    """Streams go on elsewhere, or end with an error and not with a clean end; what was received is
    what is charged."""
    stack.wait_until(lambda: stack.replicas("large-reserved", "WARM"), 60.0, "a warm replica")
    pid = stack.replica_pid("large-reserved")
    await witness.break_while_streaming(STREAMS, 4, lambda: os.kill(pid, signal.SIGKILL))
    cut = [seen for seen in witness.seen if not seen.is_whole]
    assert all(seen.error is not None for seen in cut)


async def test_g17_ledger_killed_again_and_again_loses_nothing(
    stack: Stack, witness: Witness
) -> None:
    """Short calls arrive all the while; the ledger dies again and again with records in hand."""

    def harm() -> None:
        for _ in range(3):
            pid = stack.kill9("ledger")
            stack.wait_until(
                lambda pid=pid: stack.pids().get("ledger", pid) != pid, 60, "a new ledger"
            )
            time.sleep(0.2 + witness.rng.random())

    async def short_calls() -> None:
        for _ in range(10):
            await witness.call(witness.question("sluice-small", tokens_max=8))

    await asyncio.gather(
        witness.break_while_streaming(STREAMS, 2, harm), *(short_calls() for _ in range(3))
    )
    assert all(seen.is_whole for seen in witness.seen), "a dead ledger costs no caller anything"


def open_holds(stack: Stack) -> int:
    with stack.redis() as client:
        return sum(client.zcard(due_key(shard)) for shard in range(SHARDS))
