"""What a gateway keeps does not grow with the calls it has served, nor with the length of a stream
(G45). Objects and what they hold are counted; resident memory also tells of other things."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections import Counter, deque
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import Edge, Response, body, edge, story
from tests.gateway.storms import AT_ONCE, USERS, Storm
from tests.redis_server import RedisServer

HOLDERS = (dict, list, set, deque)
CALLS_A_BATCH = 10 * AT_ONCE
BATCHES_MAX = 8
Held = tuple[tuple[str, int], ...]
"""Numbers by name, in what is none of HOLDERS: what was counted before does not count."""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        await running.publish_fleet(*(running.replica(f"r{n}") for n in range(3)))
        yield running


def held() -> Held:
    """Objects that the collector knows of, by type, and under `entries` what containers hold: it
    does not know of strings and numbers, nor of dicts that have nothing else."""
    gc.collect()
    swept_by_sqlite = cursor_references()
    tracked = [each for each in gc.get_objects() if id(each) not in swept_by_sqlite]
    plain = {id(e): e for e in gc.get_referents(*tracked) if type(e) is dict}
    counted = Counter(type(each).__qualname__ for each in tracked)
    for each in (*tracked, *(e for e in plain.values() if not gc.is_tracked(e))):
        if issubclass(type(each), HOLDERS):  # what only says that it is one is not asked
            counted["entries"] += len(each)
    return tuple(counted.items())


def cursor_references() -> set[int]:
    """The weak references to cursors that SQLite's connections keep, and their lists: each
    connection drops the dead ones at every 200th statement, and gateways ask more of them the
    slower they are."""
    open_now = [each for each in gc.get_objects() if type(each) is sqlite3.Connection]
    lists = [each for each in gc.get_referents(*open_now) if type(each) is list]
    return {id(each) for each in (*lists, *gc.get_referents(*lists))}


def grown(before: Held, after: Held, units: int) -> dict[str, int]:
    """What is more by half of one for each of so many units, a call or an event: whatever is kept
    of each is more than that. Timers, pools and connections vary."""
    more = Counter(dict(after)) - Counter(dict(before))
    return {what: n for what, n in more.items() if n > units // 2}


async def storm_of(one: Edge, calls: int, seed: int) -> None:
    """Calls that are answered, left, failed and refused; every one by another wrong key, asking for
    another model, with a key of idempotency that was never used."""
    storm = Storm(one, Random(seed))
    await storm.rage(until=lambda storm: storm.calls >= calls)
    one.upstream.behaviour = lambda _: story()
    for number in range(calls):
        unique = f"{seed}-{number}"
        strange = {"authorization": f"Bearer sk-sluice-{unique}"}
        assert (await one.post(body(), headers=strange)).status == 401
        assert (await one.post(body(model=unique))).status == 404
        keyed = {"idempotency-key": unique}
        assert (await one.post(body(user=USERS[0]), headers=keyed)).status == 200
    one.upstream.requests.clear()


async def assert_keeps_nothing_of(one: Edge, caplog: pytest.LogCaptureFixture, calls: int) -> None:
    """So many calls again and again. What is kept for a while, and the last observations of a
    pool's speed, fill up at first. What is kept of each call grows with every batch."""
    raw = b'{"concurrency": 100, "requests_per_minute": 1000000}'
    path = f"/admin/v1/limits/key:{KEY_ID}/user:*"
    assert (await ask(one.app, "PUT", path, raw, "admin"))[0] == 200
    await storm_of(one, calls, 0)
    found: list[Held] = []
    for seed in range(1, BATCHES_MAX + 1):
        await storm_of(one, calls, seed)
        caplog.clear()
        await one.parts.decision_recorder.flush()  # they stay here for a moment
        found.append(held())
        if len(found) < 3:
            continue
        first, second, third = found[-3:]
        by_one, by_both = grown(second, third, calls), grown(first, third, 2 * calls)
        if not by_one.keys() & by_both.keys():
            return
    raise AssertionError((by_one, by_both))


async def test_g45_what_is_kept_does_not_grow_with_the_calls_served(
    one: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    await assert_keeps_nothing_of(one, caplog, CALLS_A_BATCH)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_g45_what_is_kept_does_not_grow_with_thousands_of_calls(
    one: Edge, caplog: pytest.LogCaptureFixture
) -> None:
    await assert_keeps_nothing_of(one, caplog, 10 * CALLS_A_BATCH)


async def test_g45_stream_keeps_no_more_the_longer_it_gets(one: Edge) -> None:
    frames = 1500
    told: list[Held] = []

    def in_small_pieces(_: fake.Request) -> fake.Script:
        acts: list[fake.Act] = []
        for n in range(frames):
            acts.append(fake.Send(fake.own_frame(f"word{n} ", n + 1)))
            acts += [fake.Pause(0.002)] if n % 20 == 0 else []
        return fake.Script([*acts, fake.Stall()])

    async def at_two_places(response: Response) -> None:
        for sent in (frames // 10, frames):
            while response.body.count(b"data: ") < sent:  # noqa: ASYNC110
                await asyncio.sleep(0)
            told.append(held())

    one.upstream.behaviour = in_small_pieces
    await one.post(body(max_tokens=2048), leave=at_two_places)
    early, late = told
    assert not grown(early, late, frames)
    await one.settled()
