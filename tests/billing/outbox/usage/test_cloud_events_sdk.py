"""A receiver that has the official SDK of CloudEvents reads what is told of usage.

The SDK knows no batched mode: an element of a batch is an event in structured mode, by the
specification, so the receiver splits the array and gives the SDK one element at a time.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from billing.db.engine import Store
from billing.outbox.usage.cloud_event import CORRECTED, RECORDED, SOURCE
from billing.types import UsageSource
from tests.billing.outbox.receiver import Received, receiver
from tests.billing.outbox.test_outbox import Office
from tests.billing.outbox.usage.listening import START_US, book, booked, follow

STRUCTURED = {"content-type": "application/cloudevents+json; charset=utf-8"}


def read_by_sdk(sdk: Any, sending: Received) -> list[Any]:
    media_type = sending.headers["content-type"].partition(";")[0]
    assert media_type == "application/cloudevents-batch+json"
    elements = json.loads(sending.body)
    return [
        sdk.from_http_event(sdk.HTTPMessage(STRUCTURED, json.dumps(each).encode()))
        for each in elements
    ]


async def test_the_official_sdk_reads_each_event_and_each_correction_once(
    sqlite_store: Store,
) -> None:
    sdk = pytest.importorskip("cloudevents.core.bindings.http")
    office = Office(sqlite_store)
    async with receiver() as one:
        office.listens(one.url, events=["usage"])
        after_us = follow(sqlite_store, "wh_1")
        estimated = {"rid": "req_1", "source": UsageSource.ESTIMATED, "output": 7}
        book(sqlite_store, START_US, estimated, {"rid": "req_2", "ended_us": START_US + 1})
        book(sqlite_store, START_US, {"rid": "req_1"})
        while await office.keeper.turn():
            pass
        events = [event for sending in one.received for event in read_by_sdk(sdk, sending)]
    assert [event.get_id() for event in events] == ["req_1", "req_2", "req_1:2"]
    assert [event.get_type() for event in events] == [RECORDED, RECORDED, CORRECTED]
    assert {event.get_source() for event in events} == {SOURCE}
    assert urlsplit(SOURCE).path == SOURCE, "a reference to a URI"
    assert [event.get_time() for event in events] == [
        datetime(2027, 1, 15, 8, tzinfo=UTC),
        datetime(2027, 1, 15, 8, 0, 0, 1, tzinfo=UTC),
        datetime(2027, 1, 15, 8, tzinfo=UTC),
    ]
    net: dict[str, int] = {}
    for event in events:
        assert event.get_specversion() == "1.0" and event.get_subject() == "org_1"
        assert event.get_datacontenttype() == "application/json"
        told = event.get_data()
        net[told["call"]] = net.get(told["call"], 0) + told["change_nanousd"]
    assert net == booked(sqlite_store, "", after_us)
    assert events[2].get_data()["corrects"] == "req_1"
