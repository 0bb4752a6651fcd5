"""Claims and tapes on a real Redis: one runner a key, one tape a run, bounds on both."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from gateway.idempotency.key import Keyed
from gateway.idempotency.tape import TapeState
from gateway.idempotency.tapes import Becomes, Claim, Tapes, TapeSettings, TapesUnavailable
from tests.gateway.idempotency.shards import SHARD, in_open_shard, stopped
from tests.redis_server import RedisServer

KEYED = Keyed("org_1", "key_1", "a" * 64, "b" * 64)
OTHER_BODY = replace(KEYED, request_digest="c" * 64)


@pytest.fixture
async def tapes(redis: Redis) -> Tapes:
    return await in_open_shard(
        redis, TapeSettings(ttl_s=60, organization_bytes_max=100, lease_s=30)
    )


async def kept_bytes(redis: Redis) -> int:
    (sizes,) = await redis.keys("*:kept:org_1:sizes") or [b"none"]
    return int(await redis.hget(sizes, "total") or 0)


async def test_of_many_claims_at_once_one_is_granted(tapes: Tapes) -> None:
    claims = await asyncio.gather(*(tapes.claim(KEYED, f"req_{n}") for n in range(20)))
    (ours,) = [claim for claim in claims if claim.state == "claimed"]
    assert {claim.request_id for claim in claims} == {ours.request_id}
    assert sum(claim.state == "taken" for claim in claims) == 19


async def test_claim_that_is_repeated_by_its_own_runner_is_still_its_own(tapes: Tapes) -> None:
    assert await tapes.claim(KEYED, "req_1") == await tapes.claim(KEYED, "req_1")


async def test_other_body_is_told_from_the_same_one(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    assert await tapes.claim(OTHER_BODY, "req_2") == Claim("other", "req_1")


async def test_other_api_key_has_keys_of_its_own(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    assert (await tapes.claim(replace(OTHER_BODY, api_key="key_2"), "req_2")).state == "claimed"


async def test_tape_is_read_from_anywhere_and_keeps_its_order(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RUNNING, 0, [b"ha", b"bb"])
    assert await tapes.read(KEYED, "req_1", 0) == (TapeState.RUNNING, [b"ha", b"bb"])
    await tapes.write(KEYED, "req_1", Becomes.FINISHED, 2, [b"e"])
    assert await tapes.read(KEYED, "req_1", 1) == (TapeState.FINISHED, [b"bb", b"e"])


async def test_write_that_is_repeated_adds_nothing_twice(tapes: Tapes, redis: Redis) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RUNNING, 0, [b"ha", b"bb"])
    await tapes.write(KEYED, "req_1", Becomes.RUNNING, 0, [b"ha", b"bb", b"bc"])
    assert (await tapes.read(KEYED, "req_1", 0))[1] == [b"ha", b"bb", b"bc"]
    assert await kept_bytes(redis) == 6


async def test_released_key_may_be_claimed_again_while_the_end_is_still_read(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RELEASED, 0, [b"h", b"e"])
    assert (await tapes.claim(OTHER_BODY, "req_2")).state == "claimed"
    assert await tapes.read(KEYED, "req_1", 0) == (TapeState.GONE, [b"h", b"e"])


async def test_organization_keeps_so_many_bytes_and_no_more_of_any_answer(
    tapes: Tapes, redis: Redis
) -> None:
    for name, size in (("1", 60), ("2", 60), ("3", 40)):
        keyed = replace(KEYED, name=name * 64)
        await tapes.claim(keyed, f"req_{name}")
        await tapes.write(keyed, f"req_{name}", Becomes.RUNNING, 0, [b"b" * size])
        await tapes.write(keyed, f"req_{name}", Becomes.FINISHED, 1, [])
    assert await kept_bytes(redis) == 100
    second = replace(KEYED, name="2" * 64)
    assert await tapes.read(second, "req_2", 0) == (TapeState.NO_ROOM, [])
    assert (await tapes.claim(second, "req_9")).state == "taken", "it never runs again"


async def test_refusal_is_released_even_where_nothing_more_is_kept(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RELEASED, 0, [b"b" * 101])
    assert (await tapes.claim(KEYED, "req_2")).state == "claimed"


async def test_what_has_expired_makes_room(redis: Redis) -> None:
    short = await in_open_shard(redis, TapeSettings(ttl_s=0.05, organization_bytes_max=100))
    for number in range(3):
        keyed = replace(KEYED, name=str(number) * 64)
        await short.claim(keyed, f"req_{number}")
        state = await short.write(keyed, f"req_{number}", Becomes.FINISHED, 0, [b"b" * 90])
        assert state is TapeState.FINISHED
        await asyncio.sleep(0.1)
    assert not await redis.keys("*:tape:*")


async def test_runner_that_is_silent_has_lapsed_until_it_speaks_again(redis: Redis) -> None:
    impatient = await in_open_shard(redis, TapeSettings(lease_s=0.02))
    await impatient.claim(KEYED, "req_1")
    await asyncio.sleep(0.05)
    assert (await impatient.read(KEYED, "req_1", 0))[0] is TapeState.LAPSED
    patient = await in_open_shard(redis, TapeSettings(lease_s=30))
    await patient.write(KEYED, "req_1", Becomes.RUNNING, 0, [])
    assert (await patient.read(KEYED, "req_1", 0))[0] is TapeState.RUNNING


async def test_abandoned_claim_has_lapsed_at_once_and_is_not_free(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.abandon(KEYED, "req_1")
    assert (await tapes.read(KEYED, "req_1", 0))[0] is TapeState.LAPSED
    assert (await tapes.claim(KEYED, "req_2")).state == "taken"


async def test_wiped_redis_learns_the_claim_again_and_no_half_answer(
    tapes: Tapes, redis: Redis
) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RUNNING, 0, [b"h", b"b1"])
    await redis.flushall()
    await tapes.write(KEYED, "req_1", Becomes.FINISHED, 2, [b"e"])
    assert await tapes.claim(KEYED, "req_2") == Claim("taken", "req_1")
    assert await tapes.read(KEYED, "req_1", 0) == (TapeState.TORN, [])


async def test_everything_expires(tapes: Tapes, redis: Redis) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.FINISHED, 0, [b"h", b"e"])
    found = set(await redis.keys("*")) - {keys.epoch_key(SHARD).encode()}
    assert len(found) == 4
    for key in found:
        assert 0 < await redis.pttl(key) <= 120_000
        assert key.startswith(b"{s")


async def test_redis_that_is_away_is_said(redis_server: RedisServer, tapes: Tapes) -> None:
    redis_server.kill9()
    try:
        with pytest.raises(TapesUnavailable):
            await tapes.claim(KEYED, "req_1")
    finally:
        redis_server.start()


# --- what Redis comes to late --------------------------------------------------------------------


async def test_claim_that_was_given_up_is_none_when_redis_comes_to_it(
    redis_server: RedisServer, redis: Redis, tapes: Tapes
) -> None:
    """Nobody takes it back: it is void by itself."""
    assert (await tapes.claim(replace(KEYED, name="e" * 64), "req_0")).state == "claimed"
    with stopped(redis_server):
        with pytest.raises(TapesUnavailable):
            await tapes.claim(KEYED, "req_1", within_s=0.1)
        await asyncio.sleep(0.1)
    assert (await tapes.claim(KEYED, "req_2")).state == "claimed"


async def test_write_that_redis_comes_to_after_its_time_takes_no_key_that_was_released(
    redis: Redis, tapes: Tapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tapes.claim(KEYED, "req_1")
    await tapes.write(KEYED, "req_1", Becomes.RELEASED, 0, [])
    late = Tapes(redis, tapes.settings, timeout_s=0.1)

    async def long_ago(_: float) -> int:
        return 1

    monkeypatch.setattr(late, "_counts_until", long_ago)
    with pytest.raises(TapesUnavailable):
        await late.write(KEYED, "req_1", Becomes.RUNNING, 0, [b"ha"])
    assert await tapes.read(KEYED, "req_1", 0) == (TapeState.GONE, [])
    assert (await tapes.claim(KEYED, "req_2")).state == "claimed"


async def test_redis_whose_clock_was_put_forward_is_asked_again_at_once(
    redis: Redis, tapes: Tapes
) -> None:
    """By its former time the claim is late; that is no reason to refuse it."""
    await tapes.claim(KEYED, "req_1")
    tapes._time.note(1)
    assert (await tapes.claim(OTHER_BODY, "req_2")).state == "other"
    assert await tapes.write(KEYED, "req_1", Becomes.RUNNING, 0, []) is TapeState.RUNNING


@pytest.mark.parametrize("epoch", [None, "priming", "of another process"])
async def test_key_that_redis_does_not_know_is_unknown_until_its_shard_is_open(
    redis: Redis, tapes: Tapes, epoch: str | None
) -> None:
    await tapes.claim(KEYED, "req_1")
    key = keys.epoch_key(SHARD)
    there = (await redis.get(key)).decode()
    changed = {
        "priming": there.replace("open", "priming"),
        "of another process": re.sub("[0-9a-f]{40}", "0" * 40, there),
    }
    if epoch is None:
        await redis.delete(key)
    else:
        await redis.set(key, changed[epoch])
    other = replace(KEYED, name="d" * 64)
    assert (await tapes.claim(other, "req_2")).state == "unknown"
    assert (await tapes.claim(KEYED, "req_2")).state == "taken", "what it knows it knows"
    await redis.set(key, there)
    assert (await tapes.claim(other, "req_2")).state == "claimed"
