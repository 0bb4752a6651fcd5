"""Usage as CloudEvents on both databases, to receivers that are real."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import func, select

from billing.db.engine import Store
from billing.outbox import store as rows
from billing.outbox.event import PAUSES_S
from billing.outbox.usage import batches, places
from billing.types import UsageSource
from tests.billing.outbox.receiver import Receiver, receiver
from tests.billing.outbox.sending_process import killed_while_sending
from tests.billing.outbox.test_outbox import START_S, Office
from tests.billing.outbox.usage.listening import START_US, book, booked, follow, once, told

DAY_US = 86_400_000_000
ESTIMATED = {"rid": "req_1", "source": UsageSource.ESTIMATED, "output": 7}


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def count(store: Store, table: Any) -> int:
    with store.read() as conn:
        return int(conn.execute(select(func.count()).select_from(table)).scalar_one())


async def test_calls_arrive_as_cloud_events_and_corrections_as_events_of_their_own(
    store: Store,
) -> None:
    office = Office(store)
    async with receiver() as one, receiver() as other:
        office.listens(one.url, events=["usage"])
        office.listens(other.url, "wh_2", events=["usage"], org="org_2")
        office.listens(one.url, "wh_3")
        book(store, START_US, {"rid": "req_before"})
        after_us = follow(store, "wh_1", "wh_2", "wh_3")
        free = {"rid": "req_free", "org": "org_2", "price_version": "pv_1"}
        book(store, START_US, ESTIMATED, free)
        book(store, START_US, {"rid": "req_1", "ended_us": START_US - 3 * DAY_US})
        assert [await office.keeper.turn() for _ in range(3)] == [2, 0, 0]
        (got,) = one.received
        events = once([got.body])
        assert got.headers["content-type"] == "application/cloudevents-batch+json; charset=utf-8"
        assert list(events) == ["req_1", "req_free", "req_1:2"]
        assert told(events) == booked(store, "", after_us)
        assert told(once(each.body for each in other.received)) == booked(store, "org_2", after_us)
        first, _, better = events.values()
        assert first == {
            **{"specversion": "1.0", "id": "req_1", "source": "/sluice/ledger"},
            **{"type": "sluice.usage.recorded.v1", "subject": "org_1"},
            **{"time": "2027-01-15T08:00:00Z", "datacontenttype": "application/json"},
            "data": first["data"],
        }
        assert first["data"]["usage"] == {"input": 44, "cached_input": 0, "output": 7}
        assert first["data"]["amount_nanousd"] == first["data"]["change_nanousd"] > 0
        assert better["type"] == "sluice.usage.corrected.v1"
        assert (better["data"]["corrects"], better["data"]["call"]) == ("req_1", "req_1")
        assert not any("cost" in name or "pool" in name for name in better["data"])
        assert count(store, places.PLACE) == 0


async def test_calls_leave_no_rows_of_their_own(store: Store) -> None:
    office = Office(store)
    book(store, START_US, {"rid": "req_0"})
    assert count(store, places.PLACE) == 0, "nobody takes usage"
    async with receiver() as one:
        office.listens(one.url, events=["usage"])
        follow(store, "wh_1")
        book(store, START_US, *({"rid": f"req_a{number}"} for number in range(20)))
        book(store, START_US, *({"rid": f"req_b{number}"} for number in range(20)))
        assert count(store, places.PLACE) == 2
        await office.keeper.turn()
        assert (count(store, rows.EVENT), count(store, rows.TRY)) == (1, 1)
        await office.keeper.turn()
        assert count(store, places.PLACE) == 0
        assert len(once(each.body for each in one.received)) == 40


async def test_few_calls_wait_for_others_and_many_or_the_rest_of_them_do_not(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CALLS_MAX", 4)
    office = Office(sqlite_store, usage_interval_s=60.0)
    async with receiver() as one:
        office.listens(one.url, events=["usage"])
        follow(sqlite_store, "wh_1")
        book(sqlite_store, START_US, *({"rid": f"req_{number}"} for number in range(9)))
        assert [await office.keeper.turn() for _ in range(4)] == [1, 1, 1, 0]
        assert [len(once([each.body])) for each in one.received] == [4, 4, 1]
        book(sqlite_store, START_US + 1, {"rid": "req_9"})
        assert await office.keeper.turn() == 0
        office.now_s += 60
        assert await office.keeper.turn() == 1


async def test_a_receiver_that_fails_redirects_and_hangs_loses_nothing_and_keeps_the_order(
    sqlite_store: Store,
) -> None:
    office = Office(sqlite_store, timeout_s=0.3)
    async with receiver() as one, receiver() as elsewhere:
        moved = f"HTTP/1.1 308 Gone\r\nlocation: {elsewhere.url}\r\n\r\n".encode()
        answers = [b"HTTP/1.1 503 No\r\n\r\n", moved, None]
        one.answer = lambda: answers.pop(0) if answers else Receiver().answer()
        office.listens(one.url, events=["usage"])
        after_us = follow(sqlite_store, "wh_1")
        for number in range(3):
            book(sqlite_store, START_US + number, {"rid": f"req_{number}"})
            await office.keeper.turn()
            office.now_s += 3600
        assert office.deliveries() == [("pending", 3)]
        assert [await office.keeper.turn() for _ in range(3)] == [1, 1, 0]
        assert [list(once([each.body])) for each in one.received] == [
            *[["req_0"]] * 4,
            ["req_1", "req_2"],
        ]
        assert len({each.id for each in one.received}) == 2
        assert told(once(each.body for each in one.received)) == booked(sqlite_store, "", after_us)
        assert elsewhere.received == []


async def failed_for_good(office: Office, one: Receiver, store: Store) -> int:
    """A booking is refused until no try is left; from where on the endpoint follows."""
    one.answer = lambda: b"HTTP/1.1 500 No\r\n\r\n"
    office.listens(one.url, events=["usage"])
    after_us = follow(store, "wh_1")
    book(store, START_US, {"rid": "req_0"})
    for pause_s in (0, *PAUSES_S):
        office.now_s += pause_s
        assert await office.keeper.turn() == 1
    return after_us


async def test_a_batch_that_failed_for_good_holds_later_ones_until_it_is_sent_again(
    sqlite_store: Store,
) -> None:
    office = Office(sqlite_store)
    async with receiver() as one:
        after_us = await failed_for_good(office, one, sqlite_store)
        book(sqlite_store, START_US + 1, {"rid": "req_1"})
        office.now_s += 10**6
        assert await office.keeper.turn() == 0
        assert [state for state, _ in office.deliveries()] == ["failed"]
        one.answer = Receiver().answer
        with sqlite_store.write() as conn:
            assert rows.replay(conn, "wh_1", office.now_us) == 1
        assert [await office.keeper.turn() for _ in range(3)] == [1, 1, 0]
        assert told(once(each.body for each in one.received)) == booked(sqlite_store, "", after_us)


async def test_a_batch_that_failed_and_was_removed_is_cut_again(sqlite_store: Store) -> None:
    office = Office(sqlite_store)
    async with receiver() as one:
        after_us = await failed_for_good(office, one, sqlite_store)
        office.now_s += 91 * DAY_US / 1e6
        assert office.keeper.prune() == 2
        assert count(sqlite_store, rows.EVENT) == 0
        book(sqlite_store, START_US + 1, {"rid": "req_1"})
        one.answer = Receiver().answer
        assert [await office.keeper.turn() for _ in range(2)] == [1, 0]
        assert told(once(each.body for each in one.received)) == booked(sqlite_store, "", after_us)


async def test_killed_between_sending_and_noting_it_repeats_the_batch_and_loses_nothing(
    sqlite_store: Store,
) -> None:
    office = Office(sqlite_store)
    async with receiver() as one:
        one.answer = lambda: None
        office.listens(one.url, events=["usage"])
        after_us = follow(sqlite_store, "wh_1")
        book(sqlite_store, START_US, {"rid": "req_0"}, {"rid": "req_1"})
        await killed_while_sending(sqlite_store, one.came, START_S)
        one.answer = Receiver().answer
        book(sqlite_store, START_US + 1, {"rid": "req_2"})
        assert await office.keeper.turn() == 0, "the other may still be at it"
        office.now_s += 2 * office.sender.timeout_s + 60
        assert [await office.keeper.turn() for _ in range(3)] == [1, 1, 0]
        first, again, later = one.received
        assert (first.id, first.body) == (again.id, again.body)
        assert list(once([first.body, later.body])) == ["req_0", "req_1", "req_2"]
        assert told(once([first.body, later.body])) == booked(sqlite_store, "", after_us)


async def test_replayed_batches_arrive_in_order(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "CALLS_MAX", 1)
    office = Office(sqlite_store)
    names = [f"req_{number}" for number in range(8)]
    async with receiver() as one:
        office.listens(one.url, events=["usage"])
        follow(sqlite_store, "wh_1")
        book(sqlite_store, START_US, *({"rid": name} for name in names))
        while await office.keeper.turn():
            office.now_s += 1
        with sqlite_store.write() as conn:
            assert rows.replay(conn, "wh_1", office.now_us) == 8
        book(sqlite_store, START_US + 1, {"rid": "req_8"})
        while await office.keeper.turn():
            office.now_s += 1
        arrived = [name for each in one.received for name in once([each.body])]
        assert arrived == [*names, *names, "req_8"]
