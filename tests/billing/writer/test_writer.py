"""The writer against a real Redis and a real SQLite."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError

from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger import store as transfers
from billing.ledger.booking import Batch, BookedBatch
from billing.limits.keys import shard_of, usage_key
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from billing.queries import call_by_rid, open_call
from billing.settings import LedgerSettings
from billing.types import SettledCall, UsageSource, encode
from billing.writer import letters as letter_rows
from billing.writer import marks
from billing.writer.stream import READ_MAX, UsageStreams
from billing.writer.writer import Writer
from tests.billing.calls import opened_call, settled_call
from tests.billing.ledger_parts import writing

SETTINGS = LedgerSettings(block_ms=20, linger_ms=0, retry_after_s=0.01, mark_interval_s=0.01)
EXACT = 44 * 5 + 56 * 20.000004 + 1  # nano-USD, before rounding
AMOUNT = 220 + 1120 + 1
PRICED = (Component.INPUT, Component.OUTPUT)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def make_writer(redis: Redis, store: Store) -> Writer:
    return Writer(
        UsageStreams(redis, "ledger"), store, SETTINGS, now=time.time, tick=time.monotonic
    )


async def add(redis: Redis, kind: str, rid: str, payload: bytes, org: str = "org_1") -> None:
    fields: dict[Any, Any] = {"k": kind, "r": rid, "p": payload}
    await redis.xadd(usage_key(shard_of(org)), fields)


async def settle(redis: Redis, call: SettledCall) -> None:
    await add(redis, "settled", call.rid, encode(call), call.org)


def answered(rid: str = "req_1", **changes: Any) -> SettledCall:
    amount = changes.pop("amount_nanousd", AMOUNT)
    return settled_call(opened_call(rid), amount, **changes)


async def booked(store: Store, rid: str) -> None:
    async with asyncio.timeout(30):
        while call_by_rid(store, rid) is None:  # noqa: ASYNC110 - SQL has no event to wait for
            await asyncio.sleep(0.002)


def letters(store: Store) -> list[str]:
    with store.read() as conn:
        return [letter["reason"] for letter in letter_rows.listed(conn, resolved_too=True)]


async def test_a_settled_call_is_one_event_and_one_charge(redis: Redis, store: Store) -> None:
    await add(redis, "reserved", "req_1", encode(opened_call()))
    await settle(redis, answered())
    await make_writer(redis, store).turn()
    found = call_by_rid(store, "req_1")
    assert found is not None
    assert found.usage.amount_nanousd == AMOUNT == round(EXACT)
    assert [t["amount_nanousd"] for t in found.transfers] == [AMOUNT]
    assert found.transfers[0]["transfer_id"] == "req_1:charge:1"
    assert open_call(store, "req_1") is None
    assert letters(store) == []


async def test_a_reserved_call_is_an_open_hold_until_it_settles(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    await add(redis, "reserved", "req_1", encode(opened_call()))
    await writer.turn()
    assert open_call(store, "req_1") is not None
    await settle(redis, answered())
    await writer.turn()
    assert open_call(store, "req_1") is None


async def test_a_reserved_record_after_its_settlement_opens_nothing(
    redis: Redis, store: Store
) -> None:
    writer = make_writer(redis, store)
    await settle(redis, answered())
    await writer.turn()
    await add(redis, "reserved", "req_1", encode(opened_call()))
    await writer.turn()
    assert open_call(store, "req_1") is None


async def test_a_second_delivery_changes_nothing(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    for _ in range(3):
        await settle(redis, answered())
    await writer.turn()
    await settle(redis, answered())
    await writer.turn()
    assert (writer.stats.events, writer.stats.repeated) == (1, 3)
    assert letters(store) == []


async def test_another_exact_record_is_a_dead_letter(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    await settle(redis, answered())
    await settle(redis, answered(finish_reason="length"))
    await writer.turn()
    assert letters(store) == ["conflict"]
    found = call_by_rid(store, "req_1")
    assert found is not None and found.usage.finish_reason == "stop"


async def test_an_exact_record_reverses_the_estimate(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    estimate = answered(source=UsageSource.ESTIMATED, output=10, amount_nanousd=220 + 200 + 1)
    await settle(redis, estimate)
    await settle(redis, answered())
    await writer.turn()
    found = call_by_rid(store, "req_1")
    assert found is not None
    assert found.usage.source == "exact"
    kinds = [(t["kind"], t["amount_nanousd"], t["reverses_id"]) for t in found.transfers]
    assert sorted(kinds) == [
        ("charge", 421, None),
        ("charge", AMOUNT, None),
        ("reversal", 421, "req_1:charge:1"),
    ]


@pytest.mark.parametrize("outputs", [(10, 30), (30, 10)])
async def test_of_two_estimates_the_larger_holds(
    redis: Redis, store: Store, outputs: tuple[int, int]
) -> None:
    writer = make_writer(redis, store)
    for output in outputs:
        amount = 220 + 20 * output + 1
        await settle(
            redis,
            answered(source=UsageSource.ESTIMATED, output=output, amount_nanousd=amount),
        )
        await writer.turn()
    found = call_by_rid(store, "req_1")
    assert found is not None
    assert (found.usage.output, found.usage.amount_nanousd) == (30, 821)
    net = sum(t["amount_nanousd"] * (1 if t["kind"] == "charge" else -1) for t in found.transfers)
    assert net == 821


async def test_a_wrong_amount_is_booked_right_and_reported(redis: Redis, store: Store) -> None:
    await settle(redis, answered(amount_nanousd=5))
    await make_writer(redis, store).turn()
    found = call_by_rid(store, "req_1")
    assert found is not None and found.usage.amount_nanousd == AMOUNT
    assert letters(store) == ["amount_mismatch"]


async def test_a_free_call_has_an_event_and_no_transfer(redis: Redis, store: Store) -> None:
    await settle(redis, answered(input=0, output=0, amount_nanousd=0, price_version=""))
    await make_writer(redis, store).turn()
    found = call_by_rid(store, "req_1")
    assert found is not None and found.transfers == [] and found.usage.amount_nanousd == 0


def nested(depth: int) -> bytes:
    """A record whose decision is deeper than any reader follows."""
    deep = b'{"decision":' + b'{"a":' * depth + b"1" + b"}" * depth
    return encode(answered()).replace(b'{"v"', deep + b',"v"', 1)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"{not json", id="no JSON"),
        pytest.param(encode(answered(model="unheard-of")), id="no price"),
        pytest.param(b'{"v":2}', id="another version"),
        pytest.param(nested(5000), id="nested"),
    ],
)
async def test_poison_goes_to_dead_letter_after_five_deliveries(
    redis: Redis, store: Store, payload: bytes
) -> None:
    writer = make_writer(redis, store)
    await add(redis, "settled", "req_1", payload)
    await settle(redis, answered("req_2"))
    turns = 0
    while not letters(store):
        await writer.turn()
        turns += 1
        await asyncio.sleep(0.012)
        assert turns < 10
    assert turns >= SETTINGS.deliveries_max
    assert call_by_rid(store, "req_2") is not None
    assert await UsageStreams(redis, "ledger").pending(10) == []


async def test_poison_that_no_text_of_a_database_holds_stops_nobody(
    redis: Redis, store: Store
) -> None:
    writer = make_writer(redis, store)
    await add(redis, "set\0tled", "req\0", b"\0")
    await settle(redis, answered("req_2"))
    while not letters(store):
        await writer.turn()
        await asyncio.sleep(0.012)
    assert letters(store) == ["unbookable" if is_postgresql(store) else "unknown_kind"]
    assert call_by_rid(store, "req_2") is not None


def is_postgresql(store: Store) -> bool:
    return store.engine.dialect.name == "postgresql"


async def test_a_record_that_sql_refuses_does_not_stop_its_batch(
    redis: Redis, store: Store
) -> None:
    await settle(redis, answered("req_1", first_token_us=2**70))
    await settle(redis, answered("req_2"))
    await make_writer(redis, store).turn()
    assert call_by_rid(store, "req_1") is None
    assert call_by_rid(store, "req_2") is not None


async def test_what_a_killed_writer_left_is_taken_up_first(redis: Redis, store: Store) -> None:
    streams = UsageStreams(redis, "ledger")
    await streams.ensure_groups()
    await settle(redis, answered())
    assert len(await streams.read_new(10)) == 1  # delivered, and then the process was killed
    await make_writer(redis, store).turn()
    assert call_by_rid(store, "req_1") is not None
    assert await streams.pending(10) == []


async def test_the_stream_is_trimmed_only_behind_what_sql_has(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    key = usage_key(shard_of("org_1"))
    await writer.turn()
    for n in range(5):
        await settle(redis, answered(f"req_{n}"))
    await add(redis, "settled", "bad", b"{")
    await settle(redis, answered("req_9"))
    await writer.turn()
    await asyncio.sleep(0.012)
    await writer.turn()
    left: Any = await redis.xrange(key)
    assert [fields[b"r"] for _, fields in left] == [b"bad", b"req_9"]


async def test_a_wiped_redis_is_read_again_from_the_beginning(redis: Redis, store: Store) -> None:
    async with writing(make_writer(redis, store)):
        await asyncio.sleep(0.1)
        await redis.flushall()
        await settle(redis, answered())
        await booked(store, "req_1")


async def test_usage_is_in_sql_soon_after_it_comes_under_the_settings_as_they_are(
    redis: Redis, store: Store
) -> None:
    settings = LedgerSettings()
    writer = Writer(
        UsageStreams(redis, "ledger"), store, settings, now=time.time, tick=time.monotonic
    )
    async with writing(writer):
        for n in range(5):
            await settle(redis, answered(f"req_{n}"))
            await booked(store, f"req_{n}")  # in its bounded time, though nothing more comes


async def test_an_idle_writer_says_that_it_has_caught_up(redis: Redis, store: Store) -> None:
    writer = make_writer(redis, store)
    begun_us = int(time.time() * 1e6)
    await writer.turn()
    with store.read() as conn:
        assert marks.caught_up_us(conn, 64) == 0 or marks.caught_up_us(conn, 64) >= begun_us
    await asyncio.sleep(0.02)
    await writer.turn()
    with store.read() as conn:
        assert marks.caught_up_us(conn, 64) >= begun_us


async def test_a_record_that_is_booked_after_later_ones_takes_no_mark_back(
    redis: Redis, store: Store
) -> None:
    writer = make_writer(redis, store)
    unpriced = {"model": "tale-new", "price_version": "pv_2", "amount_nanousd": 100}
    await settle(redis, answered("req_1", **unpriced))
    await settle(redis, answered("req_2"))
    await writer.turn()
    shard = shard_of("org_1")
    with store.read() as conn:
        before = marks.entries(conn)[shard]
    rates = [PriceRate("tale-new", "default", part, 1_000_000) for part in PRICED]
    put_into_force(store, rates, by="test", now_us=2, version_id="pv_2")
    await asyncio.sleep(0.012)
    await writer.turn()
    assert writer.stats.events == 2, "the first was booked after the second"
    with store.read() as conn:
        assert marks.entries(conn)[shard] == before


MANY = SETTINGS.model_copy(update={"batch_max": 50, "pending_max": 1000})


async def after_a_round(
    redis: Redis, store: Store, settings: LedgerSettings
) -> tuple[Writer, UsageStreams]:
    """A writer after its first round, and the streams it reads."""
    streams = UsageStreams(redis, "ledger")
    writer = Writer(streams, store, settings, now=time.time, tick=time.monotonic)
    await writer.turn()
    return writer, streams


async def settle_many(redis: Redis, count: int) -> None:
    for start in range(0, count, 1000):
        pipe = redis.pipeline(transaction=False)
        for n in range(start, min(count, start + 1000)):
            call = answered(f"req_{n}")
            fields: dict[Any, Any] = {"k": "settled", "r": call.rid, "p": encode(call)}
            pipe.xadd(usage_key(shard_of(call.org)), fields)
        await pipe.execute()


def charged(store: Store) -> int:
    with store.read() as conn:
        return sum(row["debits"] for row in transfers.accounts(conn))


async def test_one_turn_books_what_is_there_though_it_is_read_in_parts(
    redis: Redis, store: Store
) -> None:
    settings = MANY.model_copy(update={"retry_after_s": 60.0})
    writer, streams = await after_a_round(redis, store, settings)
    await settle_many(redis, 2 * READ_MAX + 250)
    await writer.turn()
    assert writer.stats.events == 2 * READ_MAX + 250 and writer.stats.repeated == 0
    assert charged(store) == writer.stats.events * AMOUNT
    assert await streams.pending(10) == []


async def test_one_busy_stream_alone_is_read_until_it_fills_a_batch(
    redis: Redis, store: Store
) -> None:
    settings = MANY.model_copy(update={"batch_max": 2 * READ_MAX, "retry_after_s": 60.0})
    writer, _ = await after_a_round(redis, store, settings)
    await settle_many(redis, 4 * READ_MAX)
    await writer.turn()
    assert (writer.stats.events, writer.stats.batches) == (4 * READ_MAX, 2)


async def test_an_outage_of_sql_leaves_pending_what_was_read_ahead_and_nothing_else(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, streams = await after_a_round(redis, store, MANY)
    await settle_many(redis, 200)
    book, begun = booking.book, []

    def book_until_the_outage(conn: Connection, batch: Batch) -> BookedBatch:
        begun.append(batch)
        if len(begun) == 3:
            raise OperationalError("the third", None, OSError("gone"))
        return book(conn, batch)

    monkeypatch.setattr(booking, "book", book_until_the_outage)
    with pytest.raises(OperationalError):
        await writer.turn()
    assert writer.stats.events == 100, "what was booked before the outage is acknowledged"
    assert len(await streams.pending(1000)) == 100
    await asyncio.sleep(0.012)
    await writer.turn()
    assert (writer.stats.events, writer.stats.repeated) == (200, 0)
    assert charged(store) == 200 * AMOUNT
    assert await streams.pending(1000) == []


async def test_an_outage_of_redis_before_the_acknowledgement_repeats_without_effect(
    redis: Redis, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, streams = await after_a_round(redis, store, MANY)
    await settle_many(redis, 150)
    acknowledge, asked = streams.acknowledge, []

    async def acknowledge_but_once(entries: dict[int, list[str]]) -> None:
        asked.append(entries)
        if len(asked) == 1:
            raise RedisConnectionError("gone")
        await acknowledge(entries)

    monkeypatch.setattr(streams, "acknowledge", acknowledge_but_once)
    with pytest.raises(RedisConnectionError):
        await writer.turn()
    assert charged(store) == 100 * AMOUNT, "the second batch was booked meanwhile"
    await asyncio.sleep(0.012)
    await writer.turn()
    assert (writer.stats.events, writer.stats.repeated) == (50, 100)
    assert charged(store) == 150 * AMOUNT
    assert await streams.pending(1000) == []


async def test_a_price_that_came_into_force_meanwhile_is_known_to_what_was_read_ahead(
    redis: Redis, store: Store
) -> None:
    settings = MANY.model_copy(update={"batch_max": 1, "retry_after_s": 60.0})
    writer, _ = await after_a_round(redis, store, settings)
    rates = [PriceRate("tale-new", "default", part, 1_000_000) for part in PRICED]
    put_into_force(store, rates, by="test", now_us=2, version_id="pv_2")
    unknown = {"model": "tale-new", "price_version": "pv_2", "amount_nanousd": 100}
    for n in range(5):
        await settle(redis, answered(f"req_{n}", **unknown))
    await writer.turn()
    assert writer.stats.events == 5
    assert letters(store) == []
