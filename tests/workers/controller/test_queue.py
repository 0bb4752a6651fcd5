"""The waiting room on a real Redis: bounded, self-emptying, the same for everybody."""

import asyncio

import pytest
from redis.asyncio import Redis

from routing.types import Tier
from workers.controller.queue import DUE_MAX, WaitingRoom, WaitingRoomFull


async def test_depth_counts_who_entered_and_did_not_leave(redis: Redis) -> None:
    room = WaitingRoom(redis)
    await room.enter("p", "a", wait_ms=60_000)
    await room.enter("p", "b", wait_ms=60_000)
    await room.enter("other", "c", wait_ms=60_000)
    await room.leave("p", "a")
    assert await room.depth("p") == 1
    assert await room.depths(["p", "other", "empty"]) == {"p": 1, "other": 1, "empty": 0}


async def test_nobody_waits_past_the_deadline(redis: Redis) -> None:
    room = WaitingRoom(redis)
    await room.enter("p", "short", wait_ms=30)
    await room.enter("p", "long", wait_ms=60_000)
    await asyncio.sleep(0.06)
    assert await room.depth("p") == 1
    assert await room.position("p", "short") is None


async def test_pool_that_is_wanted_counts_as_one_caller_for_a_while(redis: Redis) -> None:
    room = WaitingRoom(redis)
    await room.want("p", for_ms=60_000)
    assert await room.depths(["p", "other"]) == {"p": 1, "other": 0}
    await room.enter("p", "a", wait_ms=60_000)
    assert await room.depth("p") == 1
    await room.leave("p", "a")
    await room.want("p", for_ms=20)
    await asyncio.sleep(0.05)
    assert await room.depth("p") == 0


async def test_position_follows_the_deadlines(redis: Redis) -> None:
    room = WaitingRoom(redis)
    assert await room.enter("p", "patient", wait_ms=60_000) == 0
    assert await room.enter("p", "hasty", wait_ms=30_000) == 0
    assert await room.position("p", "patient") == 1


async def test_full_room_refuses_newcomers_and_keeps_its_guests(redis: Redis) -> None:
    room = WaitingRoom(redis, bound=2)
    await room.enter("p", "a", wait_ms=60_000)
    await room.enter("p", "b", wait_ms=60_000)
    with pytest.raises(WaitingRoomFull):
        await room.enter("p", "c", wait_ms=60_000)
    assert await room.enter("p", "a", wait_ms=90_000) == 1
    assert await room.depth("p") == 2


async def test_deadlines_are_told_in_few_groups_and_none_later_than_it_is(redis: Redis) -> None:
    room = WaitingRoom(redis)
    for place in range(100):
        await room.enter("p", f"r{place}", wait_ms=600_000 + place * 1_000)
    due = (await room.due(["p", "empty"]))["p"]
    assert len(due) <= DUE_MAX and due[-1].callers == 100
    before = 0
    for each in due:
        assert each.left_ms <= 600_000 + before * 1_000
        before = each.callers
    assert (await room.due(["empty"]))["empty"] == ()


async def test_leaving_twice_is_no_error(redis: Redis) -> None:
    await WaitingRoom(redis).leave("p", "never-entered")


async def test_a_cancelled_caller_leaves_the_room(redis: Redis) -> None:
    room = WaitingRoom(redis)
    inside = asyncio.Event()

    async def wait_for_ever() -> None:
        async with room.waiting("p", "a", wait_ms=60_000):
            inside.set()
            await asyncio.Event().wait()

    waiter = asyncio.create_task(wait_for_ever())
    await inside.wait()
    assert await room.depth("p") == 1
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert await room.depth("p") == 0


async def test_callers_are_counted_by_tier(redis: Redis) -> None:
    room = WaitingRoom(redis)
    for place in range(3):
        await room.enter("p", f"f{place}", wait_ms=60_000, tier=Tier.FLEX)
    await room.enter("p", "d", wait_ms=60_000)
    await room.enter("p", "p", wait_ms=60_000, tier=Tier.PRIORITY)
    await room.enter("p", "late", wait_ms=1, tier=Tier.PRIORITY)
    await room.leave("p", "f0")
    await asyncio.sleep(0.02)
    counts = await room.queues(["p", "empty"])
    assert {each.tier: each.callers for each in counts["p"]} == {
        "default": 1,
        "flex": 2,
        "priority": 1,
    }
    assert counts["empty"] == ()
    assert await room.depth("p") == 4
