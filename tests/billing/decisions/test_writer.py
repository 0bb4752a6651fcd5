"""Records of decisions on their way into SQL, and out of it again."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.db.engine import Store
from billing.decisions import store as decisions
from billing.decisions.batch import SAMPLE_OF, DecisionBytes, encode, is_sampled
from billing.decisions.writer import DECISIONS_KEY, DecisionWriter, publish
from billing.settings import LedgerSettings
from billing.tasks import end

DAY_S = 86_400
NOW_S = 1_800_000_000.0


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def record(rid: str, at_s: float = NOW_S, facts: bytes = b"facts") -> DecisionBytes:
    return DecisionBytes(rid, int(at_s * 1e6), facts, [b"pool", b"state"])


def write(store: Store, *records: DecisionBytes, gateway: str = "gw") -> None:
    with store.write() as conn:
        decisions.add(conn, gateway, records)


def read(store: Store, rid: str) -> DecisionBytes | None:
    with store.read() as conn:
        return decisions.record_of(conn, rid)


def count(store: Store, table: str) -> int:
    with store.read() as conn:
        return int(conn.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


def writer(redis: Redis | None, store: Store, now_s: float = NOW_S, **more: int) -> DecisionWriter:
    settings = LedgerSettings(decision_interval_s=0.01, **more)
    return DecisionWriter(redis, store, settings, now=lambda: now_s)  # type: ignore[arg-type]


async def test_batch_of_a_gateway_is_written_and_taken_out(redis: Redis, store: Store) -> None:
    await publish(redis, "gw", encode([record("req_1"), record("req_2")]))
    await publish(redis, "gw", b"no batch")
    assert await writer(redis, store).turn() == 2
    assert (read(store, "req_1"), read(store, "req_2")) == (record("req_1"), record("req_2"))
    assert read(store, "req_3") is None
    assert await redis.xlen(DECISIONS_KEY) == 0


async def test_batch_that_is_written_twice_says_the_same(redis: Redis, store: Store) -> None:
    """A ledger that is killed before it took a batch out writes it again."""
    body = encode([record("req_1")])
    write(store, record("req_1"))
    await publish(redis, "gw", body)
    await writer(redis, store).turn()
    assert read(store, "req_1") == record("req_1")
    assert count(store, "decision_place") == 1


async def test_an_outage_is_waited_out(redis: Redis, store: Store) -> None:
    await redis.set(DECISIONS_KEY, "no stream")  # every read of it fails
    running = asyncio.create_task(writer(redis, store).run())
    await asyncio.sleep(0.05)
    await redis.delete(DECISIONS_KEY)
    await publish(redis, "gw", encode([record("req_1")]))
    async with asyncio.timeout(60):
        while read(store, "req_1") is None:  # noqa: ASYNC110 - SQL has no event for a row
            await asyncio.sleep(0.01)
    await end(running)


def test_later_record_of_a_call_replaces_the_one_before(store: Store) -> None:
    """A call whose model had no room is decided again over the others."""
    write(store, record("req_1", facts=b"first"), record("req_1", facts=b"second"))
    assert read(store, "req_1") == record("req_1", facts=b"second")
    write(store, record("req_1", facts=b"third"), gateway="other")
    assert read(store, "req_1") == record("req_1", facts=b"third")


def test_few_calls_share_a_body_and_a_full_one_is_left_alone(store: Store) -> None:
    for number in range(20):
        write(store, record(f"req_{number}", NOW_S + number))
    assert count(store, "decision_batch") == 1
    noise = "".join(f"{number:x}" for number in range(100_000)).encode()
    write(store, record("req_big", NOW_S + 30, facts=noise))
    write(store, record("req_after", NOW_S + 40))
    assert count(store, "decision_batch") == 2
    since = decisions.recorded_since(store, int((NOW_S + 18) * 1e6))
    assert [each.rid for each in since] == ["req_18", "req_19", "req_big", "req_after"]


def test_after_a_day_a_sample_is_left(store: Store) -> None:
    rids = [f"req_{number:032x}" for number in range(5 * SAMPLE_OF)]
    write(store, *[record(rid) for rid in rids])
    assert writer(None, store, NOW_S + DAY_S - 1).retire() == 0
    assert writer(None, store, NOW_S + DAY_S + 1).retire() == 1
    assert {rid for rid in rids if read(store, rid)} == set(filter(is_sampled, rids))
    assert count(store, "decision_place") == sum(map(is_sampled, rids))
    assert writer(None, store, NOW_S + 2 * DAY_S).retire() == 0


def test_records_never_take_more_than_their_bytes(store: Store) -> None:
    for number in range(5):
        write(store, record(f"req_{number}", NOW_S + number), gateway=f"gw-{number}")
    with store.read() as conn:
        all_bytes = decisions.size_bytes(conn)
    assert writer(None, store, NOW_S + 5, decision_bytes_max=all_bytes * 3 // 5).retire() == 2
    assert [read(store, f"req_{number}") is None for number in range(5)] == [
        *(True, True),
        *(False, False, False),
    ]
    assert count(store, "decision_place") == 3


def test_body_that_cannot_be_read_stops_nobody(store: Store) -> None:
    write(store, record("req_1", NOW_S - 2 * DAY_S))
    with store.write() as conn:
        conn.execute(text("UPDATE decision_batch SET body = :none"), {"none": b"broken"})
    write(store, record("req_2"))
    assert read(store, "req_2") == record("req_2")
    with store.write() as conn:
        conn.execute(
            text("UPDATE decision_batch SET body = :none, until_us = 0"), {"none": b"broken"}
        )
    assert writer(None, store).retire() == 1
    assert count(store, "decision_batch") == 0
