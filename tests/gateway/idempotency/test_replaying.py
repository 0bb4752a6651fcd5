"""A recorded answer is played back byte for byte: while it is made, after it, and if it was cut."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from billing.tasks import end
from gateway.errors import ApiError
from gateway.idempotency.fate import Fates
from gateway.idempotency.key import Keyed
from gateway.idempotency.recording import Recording
from gateway.idempotency.replaying import Replaying
from gateway.idempotency.tape import REPLAYED, Player, TapeState
from gateway.idempotency.tapes import Tapes, TapeSettings, TapesUnavailable
from tests.gateway.idempotency.shards import in_open_shard, stopped
from tests.redis_server import RedisServer

KEYED = Keyed("org_1", "key_1", "a" * 64, "b" * 64)
HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"x-request-id", b"req_1"), (b"x-odd", b"\xe9")],
}


def piece(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


@dataclass(slots=True)
class Listener:
    heard: list[dict[str, Any]] = field(default_factory=list)

    async def send(self, message: dict[str, Any]) -> None:
        self.heard.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.heard)


class Charged:
    async def charged_nanousd(self, request_id: str, organization: str, within_s: float) -> int:
        return 1_500


def replaying(tapes: Tapes, followers_max: int = 9) -> Replaying:
    fates = cast(Fates, Charged())
    return Replaying(tapes, fates, poll_s=0.005, followers_max=followers_max)


def for_ever() -> float:
    return 1e9


@pytest.fixture
async def tapes(redis: Redis) -> Tapes:
    return await in_open_shard(redis, TapeSettings(answer_bytes_max=10_000))


async def recorded(tapes: Tapes, *messages: dict[str, Any]) -> Listener:
    client = Listener()
    await tapes.claim(KEYED, "req_1")
    async with Recording(tapes, KEYED, "req_1", client.send) as recording:
        for message in messages:
            await recording.send(message)
    return client


async def test_finished_answer_is_replayed_with_its_status_headers_and_bytes(tapes: Tapes) -> None:
    client = await recorded(tapes, HEAD, piece(b"one"), piece(b""), piece(b"two", more=False))
    again = Listener()
    async with asyncio.timeout(30):
        await replaying(tapes).follow(KEYED, "req_1", Player(), again.send, for_ever)
    assert again.body == client.body == b"onetwo"
    assert again.heard[0] == HEAD | {"headers": [*HEAD["headers"], REPLAYED]}
    assert [m["more_body"] for m in again.heard[1:]][-1] is False


async def test_follower_hears_what_left_already_and_then_the_rest(tapes: Tapes) -> None:
    client, follower = Listener(), Listener()
    await tapes.claim(KEYED, "req_1")
    async with asyncio.timeout(30), Recording(tapes, KEYED, "req_1", client.send) as recording:
        await recording.send(HEAD)
        await recording.send(piece(b"one"))
        follow = replaying(tapes).follow(KEYED, "req_1", Player(), follower.send, for_ever)
        following = asyncio.create_task(follow)
        while follower.body != b"one":  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        recording.leave_client()
        await recording.send(piece(b"two", more=False))
        await following
    assert follower.body == b"onetwo"
    assert client.body == b"one", "the client had left"


async def test_run_that_was_cut_is_told_as_far_as_it_came_and_then_its_charge(
    tapes: Tapes,
) -> None:
    await recorded(tapes, HEAD, piece(b"one"))
    player, again = Player(), Listener()
    with pytest.raises(ApiError) as lost:
        await replaying(tapes).follow(KEYED, "req_1", player, again.send, for_ever)
    assert (lost.value.status, lost.value.code) == (502, "idempotent_run_lost")
    assert "0.0000015 USD" in lost.value.message and "req_1" in lost.value.message
    assert lost.value.headers()["x-should-retry"] == "false"
    assert (player.has_begun, again.body) == (True, b"one")


async def test_run_that_was_cut_before_its_body_can_still_have_a_true_status(tapes: Tapes) -> None:
    await recorded(tapes, HEAD)
    player, again = Player(), Listener()
    with pytest.raises(ApiError):
        await replaying(tapes).follow(KEYED, "req_1", player, again.send, for_ever)
    assert (player.has_begun, again.heard) == (False, [])


async def test_answer_beyond_the_bound_is_whole_for_its_client_and_gone_for_a_replay(
    tapes: Tapes, redis: Redis
) -> None:
    large = [piece(b"x" * 4_000) for _ in range(4)]
    client = await recorded(tapes, HEAD, *large, piece(b"", more=False))
    assert len(client.body) == 16_000
    with pytest.raises(ApiError) as refused:
        await replaying(tapes).follow(KEYED, "req_1", Player(), Listener().send, for_ever)
    assert (refused.value.status, refused.value.code) == (410, "idempotent_answer_too_large")
    assert not await redis.keys("*:tape:*")


async def test_followers_are_bounded_and_leave_by_every_way_out(tapes: Tapes) -> None:
    await tapes.claim(KEYED, "req_1")
    one_at_most = replaying(tapes, followers_max=1)
    follow = one_at_most.follow(KEYED, "req_1", Player(), Listener().send, for_ever)
    following = asyncio.create_task(follow)
    await asyncio.sleep(0)
    with pytest.raises(ApiError) as refused:
        await one_at_most.follow(KEYED, "req_1", Player(), Listener().send, for_ever)
    assert refused.value.status == 503
    await end(following)
    assert one_at_most.followers == 0


async def test_run_that_is_cancelled_again_while_it_ends_is_known_to_have_ended(
    redis: Redis,
) -> None:
    tapes = await in_open_shard(redis, TapeSettings(lease_s=600))
    await tapes.claim(KEYED, "req_1")
    inside = asyncio.Event()

    async def run() -> None:
        async with Recording(tapes, KEYED, "req_1", Listener().send) as recording:
            await recording.send(HEAD)
            inside.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(run())
    await inside.wait()
    for _ in range(3):
        running.cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(30):
        while (await tapes.read(KEYED, "req_1", 0))[0] != "lapsed":  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.wait({running})
    assert running.cancelled()


async def test_silent_run_keeps_its_lease(redis: Redis) -> None:
    tapes = await in_open_shard(redis, TapeSettings(lease_s=0.3))
    await tapes.claim(KEYED, "req_1")
    async with Recording(tapes, KEYED, "req_1", Listener().send) as recording:
        await asyncio.sleep(0.9)
        async with asyncio.timeout(30):  # where the machine stood still, the next renewal helps
            while (await tapes.read(KEYED, "req_1", 0))[0] != "running":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await recording.send(HEAD)
        await recording.send(piece(b"", more=False))
    assert (await tapes.read(KEYED, "req_1", 0))[0] == "finished"


class Counted(Tapes):
    """How often Redis was away."""

    failed = 0

    async def write(self, *asked: Any) -> TapeState:
        try:
            return await super().write(*asked)
        except TapesUnavailable:
            self.failed += 1
            raise


async def test_end_that_finds_redis_away_is_written_once_it_is_back(
    redis_server: RedisServer, redis: Redis
) -> None:
    """Its client has had it meanwhile, and has left."""
    settings = TapeSettings(lease_s=600)
    await (await in_open_shard(redis, settings)).claim(KEYED, "req_1")
    tapes, client = Counted(redis, settings, timeout_s=0.1), Listener()

    async def run() -> None:
        async with Recording(tapes, KEYED, "req_1", client.send) as recording:
            await recording.send(HEAD)
            await recording.send(piece(b"one", more=False))

    with stopped(redis_server):
        running = asyncio.create_task(run())
        async with asyncio.timeout(30):
            while tapes.failed < 6 and not running.done():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert client.body == b"one"
    await running
    state, parts = await Tapes(redis, settings).read(KEYED, "req_1", 0)
    assert (state, len(parts)) == (TapeState.FINISHED, 3)
