"""What the ledger publishes of credits, and what a gateway knows that polls a real Redis."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.credits.credit import CreditLine
from billing.credits.grants import give, line_of, void
from billing.credits.keeper import CreditKeeper
from billing.credits.lines import EVERYTHING_EVERY_US, REVISION_KEY, CreditPublisher, read_lines
from billing.db.engine import Store
from gateway.limits.credits import CreditLines
from tests.billing.credits.test_grants import NOW_US, book, call, given, grant
from tests.billing.ledger_parts import SETTINGS

LONG_AFTER_US = NOW_US + 2 * EVERYTHING_EVERY_US


@pytest.fixture
def store(sqlite_store: Store) -> Store:
    return sqlite_store


async def known(redis: Redis, lines: CreditLines) -> dict[str, CreditLine]:
    await lines.refresh()
    return lines._lines


async def test_without_credits_there_is_a_publication_that_says_so(
    redis: Redis, store: Store
) -> None:
    lines = CreditLines(redis, 1.0)
    assert (await known(redis, lines), lines.is_known) == ({}, False)
    publisher = CreditPublisher(redis, store)
    assert await publisher.publish(NOW_US) == 0
    assert (await known(redis, lines), lines.is_known) == ({}, True)


async def test_what_has_moved_is_told_once_and_read_once(redis: Redis, store: Store) -> None:
    publisher, lines = CreditPublisher(redis, store), CreditLines(redis, 1.0)
    given(store, grant("a"))
    assert await publisher.publish(NOW_US) == 1
    assert await publisher.publish(NOW_US) == 0
    assert await known(redis, lines) == {"org_1": line_of(store, "org_1")}
    revision, changed = await read_lines(redis, lines._revision)
    assert (revision, changed) == (lines._revision, [])
    book(store, call(store, "req_1"), now_us=NOW_US + 5)
    assert await publisher.publish(NOW_US + 10) == 1
    assert await known(redis, lines) == {"org_1": line_of(store, "org_1")}


async def test_a_gateway_reads_only_what_has_changed_since(redis: Redis, store: Store) -> None:
    publisher = CreditPublisher(redis, store)
    given(store, grant("a"))
    await publisher.publish(NOW_US)
    revision, _ = await read_lines(redis, 0)
    other = grant("b", created_us=NOW_US + 1, effective_us=NOW_US + 1)
    give(store, replace(other, org="org_2"), created_by="test", now_us=NOW_US + 1)
    await publisher.publish(NOW_US + 2)
    _, changed = await read_lines(redis, revision)
    assert [line.org for line in changed] == ["org_2"]


@pytest.mark.parametrize("loss", ["everything", "the last change"])
async def test_a_redis_that_lost_some_of_it_is_told_everything_again(
    redis: Redis, store: Store, loss: str
) -> None:
    publisher, lines = CreditPublisher(redis, store), CreditLines(redis, 1.0)
    given(store, grant("a"))
    await publisher.publish(NOW_US)
    await known(redis, lines)
    if loss == "everything":
        await redis.flushall()
    else:
        await redis.decr(REVISION_KEY)
    assert await known(redis, lines) == {"org_1": line_of(store, "org_1")}, "what is known stays"
    assert await publisher.publish(NOW_US) == 1
    fresh = CreditLines(redis, 1.0)
    assert await known(redis, fresh) == await known(redis, lines)
    assert lines._revision == fresh._revision


async def test_an_older_line_never_replaces_a_later_one(redis: Redis, store: Store) -> None:
    publisher, lines = CreditPublisher(redis, store), CreditLines(redis, 1.0)
    given(store, grant("a"))
    await publisher.publish(NOW_US)
    void(store, "a", voided_by="admin", now_us=NOW_US)
    lines.learn(line_of(store, "org_1"))  # as the gateway does that has voided it
    assert await known(redis, lines) == {"org_1": line_of(store, "org_1")}


async def test_a_movement_with_a_late_clock_is_found_in_time(redis: Redis, store: Store) -> None:
    publisher = CreditPublisher(redis, store)
    await publisher.publish(LONG_AFTER_US)
    given(store, grant("a"))  # by a clock that is minutes behind
    assert await publisher.publish(LONG_AFTER_US + 1) == 0
    assert await publisher.publish(LONG_AFTER_US + EVERYTHING_EVERY_US) == 1


async def test_what_cannot_be_read_leaves_what_is_known(redis: Redis, store: Store) -> None:
    given(store, grant("a"))
    lines = CreditLines(redis, 1.0)
    await CreditPublisher(redis, store).publish(NOW_US)
    before: Any = dict(await known(redis, lines))
    await redis.hset("sluice:{credits}:lines", "org_1", b"no json")  # type: ignore[misc]
    await redis.zadd("sluice:{credits}:changed", {"org_1": 99})
    await redis.set(REVISION_KEY, 99)
    assert await known(redis, lines) == before


async def test_the_ledger_process_publishes_and_books_ends(redis: Redis, store: Store) -> None:
    keeper = CreditKeeper(redis, store, SETTINGS, now=time.time, tick=time.monotonic)
    given(store, grant("a"))
    await keeper.turn()
    _, (line,) = await read_lines(redis, 0)
    assert line == line_of(store, "org_1")
