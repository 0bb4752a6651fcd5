"""Under which `Idempotency-Key` a call ran is known from the ledger alone."""

from __future__ import annotations

import pytest

from billing.db.engine import Store
from billing.queries import KeyedRun, is_open, run_under_key
from billing.types import CallStatus, UsageSource, decode_settled, encode
from tests.billing.calls import opened_call, settled_call
from tests.billing.invoices.test_invoices import IN_OCTOBER_US, book, call

DIGEST = "a" * 64


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def run(store: Store, *, api_key: str = "key_1", since_us: int = 0) -> KeyedRun | None:
    return run_under_key(store, api_key, DIGEST, since_us)


def test_charged_call_is_known_by_its_key_and_by_no_other(store: Store) -> None:
    made = call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST)
    book(store, made)
    assert run(store) == KeyedRun("req_1", made.amount_nanousd)
    assert made.amount_nanousd > 0
    assert run(store, api_key="key_2") is None
    assert run_under_key(store, "key_1", "b" * 64, 0) is None


def test_call_that_ended_before_the_instant_holds_no_key(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST))
    assert run(store, since_us=IN_OCTOBER_US) is not None
    assert run(store, since_us=IN_OCTOBER_US + 1) is None


def test_of_two_calls_under_a_key_the_newer_is_told(store: Store) -> None:
    for rid, at_us in (("req_2", IN_OCTOBER_US + 9), ("req_1", IN_OCTOBER_US)):
        book(store, call(store, rid, at_us, idempotency=DIGEST))
    assert (found := run(store)) is not None and found.rid == "req_2"


def test_failure_that_cost_nothing_holds_no_key(store: Store) -> None:
    free = {"input": 0, "output": 0, "status": CallStatus.FAILED}
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, **free))
    assert run(store) is None


def test_failure_that_was_estimated_to_cost_nothing_holds_its_key_until_it_is_exact(
    store: Store,
) -> None:
    """Its gateway may come back with the whole answer in its spool, and be paid for it."""
    free = {"input": 0, "output": 0, "status": CallStatus.FAILED}
    estimate = free | {"source": UsageSource.ESTIMATED}
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, **estimate))
    assert run(store) == KeyedRun("req_1", 0)
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, **free))
    assert run(store) is None


def test_answer_that_cost_nothing_holds_its_key(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, input=0, output=0))
    assert (found := run(store)) is not None and found.rid == "req_1"


def test_correction_says_what_a_call_was_charged(store: Store) -> None:
    estimate = {"source": UsageSource.ESTIMATED, "output": 1}
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, **estimate))
    exact = call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST, output=99)
    book(store, exact)
    assert run(store) == KeyedRun("req_1", exact.amount_nanousd)


def test_call_that_is_open_is_known_and_has_no_charge_yet(store: Store) -> None:
    book(store, opened_call("req_1", idempotency=DIGEST))
    assert run(store) == KeyedRun("req_1", None)
    assert is_open(store, "req_1")
    book(store, call(store, "req_1", IN_OCTOBER_US, idempotency=DIGEST))
    assert (found := run(store)) is not None and found.charged_nanousd is not None
    assert not is_open(store, "req_1")


def test_call_without_a_key_is_written_down_as_before(store: Store) -> None:
    """Byte for byte, as earlier versions wrote it and read it."""
    without, named = settled_call(opened_call()), settled_call(opened_call(), idempotency=DIGEST)
    assert b"idempotency" not in encode(without) and b"idempotency" not in encode(opened_call())
    assert decode_settled(encode(named)) == named != without
    book(store, call(store, "req_1", IN_OCTOBER_US), opened_call("req_2"))
    assert run(store) is None
