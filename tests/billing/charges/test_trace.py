"""From a line to its transfers, and the cut that says which they are."""

from __future__ import annotations

from typing import Any

import pytest

from billing.charges.trace import billed_call, line_transfers
from billing.db.engine import Store
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import void
from billing.prices.book import Component, PriceRate
from billing.prices.versions import put_into_force
from billing.types import UsageSource
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    SEPTEMBER,
    book,
    call,
    caught_up,
    granted,
    holds,
    run,
)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def links(store: Store, result: InvoiceResult, line: dict[str, Any], page: int) -> list[Any]:
    found: list[dict[str, Any]] = []
    after = None
    while part := line_transfers(
        store, result.invoice["invoice_id"], line["seq"], after=after, limit=page
    ):
        found += part
        after = part[-1]["booked_us"], part[-1]["transfer_id"]
    return found


@pytest.mark.parametrize("page", [1, 3, 100])
def test_totals_are_equal_at_each_step_from_invoice_to_transfers(store: Store, page: int) -> None:
    put_into_force(
        store,
        [
            *(
                PriceRate("tale-large", "default", component, price)
                for component, price in ((Component.INPUT, 10**6), (Component.OUTPUT, 5 * 10**6))
            ),
            PriceRate("tale-large", "default", Component.INPUT, 2 * 10**6, prompt_from=500),
        ],
        by="t",
        now_us=IN_OCTOBER_US - 9,
        version_id="steps",
    )
    granted(store, "g", 100)
    made: list[dict[str, Any]] = [{"input": 400}, {"input": 900}, {"input": 500, "output": 0}]
    calls = [
        call(store, f"req_{n}", IN_OCTOBER_US, price_version="steps", **used)
        for n, used in enumerate(made)
    ]
    estimate = call(store, "req_9", IN_OCTOBER_US, source=UsageSource.ESTIMATED, output=1)
    book(store, *calls, estimate, call(store, "req_9", IN_OCTOBER_US))
    (result,) = run(store, "2026-10")
    back: dict[int, list[tuple[str, int]]] = {}
    for made_call in (*calls, estimate):
        billed = billed_call(store, made_call.rid)
        assert billed.unbilled_nanousd == 0 and billed.lines
        for each in billed.lines:
            assert (each.invoice_id, each.number) == (result.invoice["invoice_id"], result.number)
            found = each.transfer["transfer_id"], each.amount_nanousd
            back.setdefault(each.line["seq"], []).append(found)
    for line in result.lines:
        behind = links(store, result, line, page)
        way_back = [(link["transfer_id"], link["amount_nanousd"]) for link in behind]
        assert sorted(back.get(line["seq"], [])) == sorted(way_back)
        assert len(behind) == line["transfers"]
        assert len({link["transfer_id"] for link in behind}) == len(behind)
        if line["kind"] != "rounding":
            assert sum(link["amount_nanousd"] for link in behind) == line["amount_nanousd"]
    assert holds(store)


def test_late_charge_is_on_the_next_invoice_alone_and_both_are_traced(store: Store) -> None:
    book(store, call(store, "req_1", SEPTEMBER.end_us - 1), now_us=IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (september,) = run(store, "2026-09")
    book(store, call(store, "req_2", SEPTEMBER.end_us - 2), now_us=IN_OCTOBER_US)
    (october,) = run(store, "2026-10")
    for result, rid in ((september, "req_1"), (october, "req_2")):
        lines = [line for line in result.lines if line["kind"] == "usage"]
        assert lines
        assert {x["rid"] for line in lines for x in links(store, result, line, 9)} == {rid}
        assert {each.number for each in billed_call(store, rid).lines} == {result.number}
    assert holds(store)


def test_batches_booked_at_one_instant_have_places_one_behind_the_other(store: Store) -> None:
    for number in range(3):
        book(store, call(store, f"req_{number}", IN_OCTOBER_US), now_us=IN_NOVEMBER_US - number)
    with store.read() as conn:
        places = conn.exec_driver_sql(
            "SELECT created_us FROM transfer ORDER BY transfer_id"
        ).scalars()
        assert list(places) == [IN_NOVEMBER_US, IN_NOVEMBER_US + 1, IN_NOVEMBER_US + 2]


def test_call_that_no_invoice_has_is_unbilled_and_a_void_one_is_left_out(store: Store) -> None:
    made = call(store, "req_1", IN_OCTOBER_US)
    book(store, made)
    before = billed_call(store, "req_1")
    assert (before.unbilled_nanousd, before.lines) == (made.amount_nanousd, ())
    caught_up(store, IN_NOVEMBER_US)
    (first,) = run(store, "2026-10")
    assert {each.number for each in billed_call(store, "req_1").lines} == {first.number}
    invoice_id = first.invoice["invoice_id"]
    void(store, invoice_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert billed_call(store, "req_1") == before
    (second,) = run(store, "2026-10")
    assert {each.number for each in billed_call(store, "req_1").lines} == {second.number}
    assert billed_call(store, "req_none").charged_nanousd == 0
