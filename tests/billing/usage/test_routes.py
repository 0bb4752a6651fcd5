"""By which rule a call went stands with its usage, whoever wrote the record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from billing.db.engine import Store
from billing.prices.estimate import cut_call
from billing.queries import call_by_rid, newest_calls
from billing.types import Route, UsageSource, decode_opened, decode_settled, encode
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.invoices.test_invoices import IN_OCTOBER_US, book, call

ROUTE = Route(
    rule="night", policy_revision=7, is_canary=True, reason="warm, the best of 4 candidates"
)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def told(store: Store, rid: str = "req_1") -> tuple[Any, ...]:
    record = call_by_rid(store, rid)
    assert record is not None
    used = record.usage
    return used.rule, used.policy_revision, used.is_canary, used.reason


@pytest.mark.parametrize("is_canary", [None, False, True])
def test_call_has_its_rule_version_side_and_reason(store: Store, is_canary: bool | None) -> None:
    route = msgspec.structs.replace(ROUTE, is_canary=is_canary)
    book(store, call(store, "req_1", IN_OCTOBER_US, route=route))
    assert told(store) == ("night", 7, is_canary, "warm, the best of 4 candidates")
    ((_, listed),) = newest_calls(store, 1)
    assert (listed.rule, listed.policy_revision) == ("night", 7)


def test_wait_of_a_call_stands_with_its_usage_and_a_call_without_one_has_no_byte_of_it(
    store: Store,
) -> None:
    waited = msgspec.structs.replace(
        ROUTE, wait_pool="small-spot", redecisions=7, wait_end="better"
    )
    book(store, call(store, "req_1", IN_OCTOBER_US, route=waited))
    record = call_by_rid(store, "req_1")
    assert record is not None
    used = record.usage
    assert (used.wait_pool, used.redecisions, used.wait_end) == ("small-spot", 7, "better")
    assert b"wait" not in encode(settled_call(opened_call(), route=ROUTE))


def test_correction_has_the_route_of_the_better_record(store: Store) -> None:
    first = msgspec.structs.replace(ROUTE, reason="ready in about 8.0 s, the only candidate")
    estimate = {"source": UsageSource.ESTIMATED, "output": 1}
    book(store, call(store, "req_1", IN_OCTOBER_US, route=first, **estimate))
    book(store, call(store, "req_1", IN_OCTOBER_US, route=ROUTE, output=99))
    assert told(store) == ("night", 7, True, ROUTE.reason)


def test_call_whose_gateway_died_keeps_the_route_that_it_was_admitted_with() -> None:
    opened = decode_opened(encode(opened_call(route=ROUTE)))
    cut = cut_call(opened, checkpoint(), ended_us=IN_OCTOBER_US, rate=lambda **_: 1)
    assert decode_settled(encode(cut)).route == ROUTE


def test_record_of_an_older_release_keeps_its_bytes_and_has_no_route(store: Store) -> None:
    assert b"route" not in encode(opened_call()) + encode(settled_call(opened_call()))
    book(store, call(store, "req_1", IN_OCTOBER_US))
    assert told(store) == (None, None, None, None)
