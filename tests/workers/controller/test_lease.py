"""One leader at a time."""

import asyncio

from redis.asyncio import Redis

from workers.controller.lease import Lease


async def test_the_first_holds_until_it_gives_up(redis: Redis) -> None:
    first = Lease(redis, holder="first", ttl_s=60)
    second = Lease(redis, holder="second", ttl_s=60)
    assert await first.hold()
    assert not await second.hold()
    assert await first.hold()
    await second.release()
    assert not await second.hold()
    await first.release()
    assert await second.hold()


async def test_a_silent_leader_is_replaced_and_does_not_come_back(redis: Redis) -> None:
    first = Lease(redis, holder="first", ttl_s=0.05)
    second = Lease(redis, holder="second", ttl_s=60)
    assert await first.hold()
    await asyncio.sleep(0.1)
    assert await second.hold()
    assert not await first.hold()
