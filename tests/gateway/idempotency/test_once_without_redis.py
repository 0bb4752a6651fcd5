"""Idempotency keys over a Redis that is emptied, restarted, slow or away: a key runs once, is
charged once, and every answer says what is true."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from billing import queries
from billing.db.engine import Store
from billing.tasks import end
from billing.types import CallStatus
from gateway.idempotency.key import Keyed, digest
from gateway.idempotency.tapes import Becomes
from gateway.upstream import fake
from tests.billing.limits.harness import open_shard
from tests.gateway.edge import CHAT, SHARD, Edge, Response, body, edge, keys, story
from tests.gateway.outages import ledger, stopped, until, whole
from tests.redis_server import RedisServer

KEY = {"idempotency-key": "order 17"}
WHOLE = body(stream=False, stream_options=None)
NOT_KEPT = (410, "idempotent_answer_not_kept")


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def is_booked(store: Store, rid: str) -> bool:
    return bool(await asyncio.to_thread(queries.known, store, [rid]))


async def until_known(one: Edge, wanted: dict[str, Any] = WHOLE) -> Response:
    """The first answer that is not a 503, each of which says when to come again."""

    async def is_known() -> bool:
        answers.append(await one.post(wanted, headers=KEY))
        if answers[-1].status == 503:
            assert answers[-1].headers["retry-after"]
        return answers[-1].status != 503

    answers: list[Response] = []
    await until(is_known)
    return answers[-1]


async def claims(one: Edge) -> list[bytes]:
    found: list[bytes] = await one.redis.keys(f"{keys.tag(SHARD)}:idem:key:*")
    return found


# --- a Redis that has lost what it knew ----------------------------------------------------------


@pytest.mark.parametrize("is_in_sql", [True, False], ids=["booked before", "only in the spool"])
async def test_charged_call_is_known_after_redis_was_emptied(
    one: Edge, tmp_path: Path, is_in_sql: bool
) -> None:
    if is_in_sql:
        async with ledger(one.redis, tmp_path) as store:
            first = await one.post(WHOLE, headers=KEY)
            rid = first.headers["x-request-id"]
            await until(lambda: is_booked(store, rid))
            await one.redis.flushall()
            told = await until_known(one)
            charged = await whole(one, store)
    else:
        first = await one.post(WHOLE, headers=KEY)
        rid = first.headers["x-request-id"]
        await one.redis.flushall()
        unknown = await one.post(WHOLE, headers=KEY)
        assert (unknown.status, unknown.error_code) == (503, "server_is_overloaded")
        assert "was not run" in unknown.json["error"]["message"]
        async with ledger(one.redis, tmp_path) as store:
            told = await until_known(one)
            charged = await whole(one, store)
    assert (told.status, told.error_code) == NOT_KEPT
    message = told.json["error"]["message"]
    assert rid in message and "too large" not in message
    assert told.headers["x-should-retry"] == "false"
    assert told.headers["x-sluice-cost-usd"] in message
    assert charged == sum(call.amount_nanousd for call in one.spooled()[1].values())
    assert len(one.upstream.requests) == 1


async def test_restarted_redis_that_lost_its_last_second_runs_nothing_twice(
    one: Edge, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The shard looks open, but for another process: what that one had last is not known here."""
    async with ledger(one.redis, tmp_path) as store:
        await one.post(WHOLE, headers=KEY)
        await one.redis.delete(*await claims(one))
        redis_server.restart()
        told = await until_known(one)
        assert (told.status, told.error_code) == NOT_KEPT
        await whole(one, store)
    assert len(one.upstream.requests) == 1


async def test_claim_that_was_deleted_by_hand_is_known_from_the_ledger(
    one: Edge, tmp_path: Path
) -> None:
    async with ledger(one.redis, tmp_path) as store:
        rid = (await one.post(WHOLE, headers=KEY)).headers["x-request-id"]
        await until(lambda: is_booked(store, rid))
        await one.redis.delete(*await claims(one))
        told = await one.post(WHOLE, headers=KEY)
        assert (told.status, told.error_code) == NOT_KEPT
        assert await claims(one) == [], "what does not run holds no key"
        other = await one.post(WHOLE, headers={"idempotency-key": "order 18"})
        assert other.status == 200


async def test_call_that_still_runs_is_told_although_redis_was_emptied(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """Its claim is there again before shards open, though its lease is not due: nobody runs beside
    it."""
    patient = {"idempotency": {"lease_s": 600.0}}
    async with (
        edge(redis_server, redis, tmp_path, gateway=patient) as one,
        ledger(redis, tmp_path) as store,
    ):
        async with running(one, WHOLE):
            await redis.flushall()
            async with following(one, WHOLE):
                assert len(one.upstream.requests) == 1
        await whole(one, store)
        assert len(one.upstream.requests) == 1


@asynccontextmanager
async def running(one: Edge, wanted: dict[str, Any]) -> AsyncIterator[None]:
    """A call under the key that has no answer yet; the gateway ends it afterwards."""
    one.upstream.scripts.append(fake.Script([fake.Stall()]))
    call = asyncio.create_task(one.post(wanted, headers=KEY))
    await until(lambda: _is(lambda: bool(one.upstream.requests)))
    try:
        yield
    finally:
        await end(call)


@asynccontextmanager
async def following(
    one: Edge, wanted: dict[str, Any], headers: dict[str, str] = KEY
) -> AsyncIterator[asyncio.Task[Response]]:
    """The same call once more, told what the first one is told."""

    async def is_there() -> bool:
        """Unless what ran is not known again yet."""
        nonlocal again
        if again.done() and again.result().status == 503:
            again = asyncio.create_task(one.post(wanted, headers=headers))
        return one.parts.once.replaying.followers == 1

    again = asyncio.create_task(one.post(wanted, headers=headers))
    await until(is_there)
    try:
        yield again
    finally:
        await end(again)


async def _is(condition: Callable[[], bool]) -> bool:
    return condition()


async def test_stream_that_saw_redis_emptied_is_not_called_too_large(one: Edge) -> None:
    """The beginning of its tape is gone, and it is 4 KB."""
    one.upstream.scripts.append(story(frames=8, pause_s=0.05))

    async def empty(response: Response) -> None:
        while b"word2" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        await one.redis.flushall()
        await open_shard(one.holds, shard=SHARD)
        await asyncio.Event().wait()

    first = await one.post(body(), headers=KEY, leave=empty)
    assert first.events[-1] == "[DONE]"
    again = await one.post(body(), headers=KEY)
    assert (again.status, again.error_code) == NOT_KEPT
    message = again.json["error"]["message"]
    assert "too large" not in message and first.headers["x-request-id"] in message
    assert len(one.upstream.requests) == 1


async def test_organization_without_room_is_told_so_and_not_of_a_large_answer(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    small = {"idempotency": {"organization_bytes_max": 100}}
    async with edge(redis_server, redis, tmp_path, gateway=small) as one:
        first = await one.post(body(), headers=KEY)
        assert first.events[-1] == "[DONE]"
        again = await one.post(body(), headers=KEY)
        assert (again.status, again.error_code) == NOT_KEPT
        assert "no more room" in again.json["error"]["message"]
        assert len(one.upstream.requests) == 1


# --- what the ledger says of a key that Redis does not know --------------------------------------


async def test_key_of_a_call_that_is_not_settled_yet_is_refused_until_it_is(
    one: Edge, tmp_path: Path
) -> None:
    """Its gateway is lost, and so is its claim; the ledger has read that it was admitted."""
    async with ledger(one.redis, tmp_path) as store, running(one, WHOLE):
        await until(lambda: _has_open_hold(store))
        await one.redis.delete(*await claims(one))
        refused = await one.post(WHOLE, headers=KEY)
        assert refused.status == 503
        assert "was not run" in refused.json["error"]["message"]
    assert len(one.upstream.requests) == 1


async def test_key_that_was_given_back_is_free_although_the_ledger_thinks_its_call_open(
    one: Edge, tmp_path: Path
) -> None:
    """It has read that the call was admitted, and then stopped reading."""
    async with AsyncExitStack() as meanwhile:
        store = await meanwhile.enter_async_context(ledger(one.redis, tmp_path))
        async with running(one, WHOLE):
            await until(lambda: _has_open_hold(store))
            await meanwhile.aclose()
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == 0
    await one.redis.delete(*await claims(one))
    assert (await one.post(WHOLE, headers=KEY)).status == 200


async def _has_open_hold(store: Store) -> bool:
    def look() -> bool:
        with store.read() as conn:
            return bool(queries.holds.admitted_before(conn, 1 << 60, 1))

    return await asyncio.to_thread(look)


async def test_key_is_free_again_an_hour_after_its_call(one: Edge, tmp_path: Path) -> None:
    async with ledger(one.redis, tmp_path) as store:
        rid = (await one.post(WHOLE, headers=KEY)).headers["x-request-id"]
        await until(lambda: is_booked(store, rid))
        await one.redis.delete(*await claims(one))
        one.watch.passed_s += 3601
        again = await one.post(WHOLE, headers=KEY)
        assert (again.status, "idempotent-replayed" in again.headers) == (200, False)


async def test_failure_that_cost_nothing_is_nothing_the_ledger_holds_a_key_for(
    one: Edge, tmp_path: Path
) -> None:
    one.upstream.behaviour = lambda _: fake.refusal(400, {"message": "no", "code": "bad"})
    async with ledger(one.redis, tmp_path) as store:
        failed = await one.post(WHOLE, headers=KEY)
        assert failed.status == 400
        await until(lambda: is_booked(store, failed.headers["x-request-id"]))
        one.upstream.behaviour = lambda _: story()
        assert (await one.post(WHOLE, headers=KEY)).status == 200


async def test_ledger_that_is_away_lets_no_key_run_and_says_so(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, Exception("no connection"))

    monkeypatch.setattr(one.parts.ledger, "read", away)
    refused = await one.post(WHOLE, headers=KEY)
    assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
    assert "was not run" in refused.json["error"]["message"]
    assert not one.upstream.requests
    monkeypatch.undo()
    assert (await one.post(WHOLE, headers=KEY)).status == 200


async def test_call_without_a_key_asks_the_ledger_nothing(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(one.parts.ledger, "read", never)
    assert (await one.post(WHOLE)).status == 200


# --- a Redis that is late ------------------------------------------------------------------------


async def test_claim_that_was_given_up_is_void_when_redis_wakes(
    one: Edge, redis_server: RedisServer
) -> None:
    """ "Was not run" stays true: sent again, the call runs."""
    with stopped(redis_server):
        refused = await asyncio.gather(
            *(one.post(WHOLE, headers={"idempotency-key": f"late {n}"}) for n in range(5))
        )
    assert {answer.status for answer in refused} == {503}
    for number in range(5):
        named = {"idempotency-key": f"late {number}"}
        again = await one.post(WHOLE, headers=named)
        assert (again.status, "idempotent-replayed" in again.headers) == (200, False)
    assert len(one.upstream.requests) == 5


async def test_whole_answer_whose_end_found_redis_away_is_told_again(
    one: Edge, redis_server: RedisServer
) -> None:
    one.upstream.scripts.append(story(frames=4, pause_s=0.05))
    is_stopped = False

    async def stop_before_the_end(response: Response) -> None:
        nonlocal is_stopped
        while b"word3" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        os.kill(redis_server.pid, signal.SIGSTOP)
        is_stopped = True
        while b"[DONE]" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(redis_server.pid, signal.SIGCONT)
        await asyncio.Event().wait()

    try:
        first = await one.post(body(), headers=KEY, leave=stop_before_the_end)
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
    assert is_stopped and first.events[-1] == "[DONE]"
    again = await one.post(body(), headers=KEY)
    assert (again.status, again.body) == (200, first.body)
    (call,) = (await one.settled()).values()
    assert call.status is CallStatus.ANSWERED


async def test_follower_of_a_claim_that_was_given_back_runs_the_call_itself(one: Edge) -> None:
    """Nobody ran it: it was told that the gateway was lost."""
    principal = await one.parts.pipeline.authenticate("Bearer sk-sluice-0123456789abcdef")
    name = hashlib.sha256(KEY["idempotency-key"].encode()).hexdigest()
    asked = digest("POST", CHAT, json.dumps(WHOLE).encode())
    keyed = Keyed(principal.organization, principal.key, name, asked)
    kept = one.parts.once.tapes
    assert (await kept.claim(keyed, "req_other")).state == "claimed"
    async with following(one, WHOLE) as again:
        await kept.write(keyed, "req_other", Becomes.RELEASED, 0, [])
        answer = await again
    assert (answer.status, "idempotent-replayed" in answer.headers) == (200, False)


# --- deadlines -----------------------------------------------------------------------------------

SOON = KEY | {"x-sluice-deadline-ms": "60000"}


@pytest.mark.parametrize("wanted", [WHOLE, body()], ids=["whole", "stream"])
async def test_follower_waits_no_longer_than_its_deadline(
    one: Edge, wanted: dict[str, Any]
) -> None:
    async with running(one, wanted), following(one, wanted, SOON) as again:
        one.watch.passed_s += 61
        told = await again
    assert (told.status, told.error_code) == (504, "deadline_exceeded")
    assert "runs under this Idempotency-Key" in told.json["error"]["message"]


async def test_claim_waits_no_longer_than_the_deadline(
    one: Edge, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one.parts.once.tapes, "_timeout_s", 3600.0)
    with stopped(redis_server):
        told = await one.post(WHOLE, headers=KEY | {"x-sluice-deadline-ms": "200"})
    assert (told.status, told.error_code) == (504, "deadline_exceeded")
    assert "was not run" in told.json["error"]["message"]
    assert (await one.post(WHOLE, headers=KEY)).status == 200


async def test_wrong_deadline_is_refused_before_anything_is_claimed(one: Edge) -> None:
    wrong = KEY | {"x-sluice-deadline-ms": "soon"}
    assert (await one.refused(WHOLE, path=CHAT, headers=wrong)).status == 400
