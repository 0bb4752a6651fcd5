"""Dunning on both databases: steps told once each, whoever looks, and none after the payment."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from billing.db.engine import Store
from billing.dunning import dunning
from billing.dunning.dunning import take_steps
from billing.invoices.result import InvoiceResult
from billing.outbox import store as outbox
from billing.parties import store as parties
from billing.payments.paying import pay
from billing.payments.payment import Receipt
from tests.billing.dunning.test_steps import STEPS
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN

DAY_US = 86_400_000_000
TERMS_DAYS = 14


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def issued(store: Store) -> InvoiceResult:
    """An invoice that is due after 14 days."""
    parties.put_seller(store, replace(SELLER, address=GERMAN.address), 1)
    parties.put_profile(store, replace(GERMAN, payment_terms_days=TERMS_DAYS), 1)
    parties.put_rule(store, DOMESTIC, 1)
    book(store, call(store, "req_1", IN_OCTOBER_US, output=50_000_000))
    caught_up(store, IN_NOVEMBER_US)
    (one,) = run(store, "2026-10")
    return one


def after(days: float) -> int:
    """So many days after it was due."""
    return int(IN_NOVEMBER_US + (TERMS_DAYS + days) * DAY_US)


def paid(store: Store, invoice: InvoiceResult, now_us: int, cents: int | None = None) -> str:
    left = invoice.payable_cents if cents is None else cents
    receipt = Receipt("org_1", f"w{left}", left, 1, invoice_id=invoice.invoice["invoice_id"])
    return str(pay(store, receipt, by="a", now_us=now_us).payment["payment_id"])


def told(store: Store, kind: str = "invoice.overdue") -> list[dict[str, str]]:
    """What was told of events of a type, in order."""
    rows = outbox.EVENT.select().where(outbox.EVENT.c.type == kind)
    with store.read() as conn:
        found = conn.execute(rows.order_by(outbox.EVENT.c.created_us)).mappings()
        return [json.loads(row["body"])["data"] for row in found]


def steps_told(store: Store) -> list[str]:
    return [each["step"] for each in told(store)]


def test_steps_are_taken_in_time_and_a_payment_stops_them(store: Store) -> None:
    invoice = issued(store)
    assert take_steps(store, STEPS, after(2)) == 0
    assert [take_steps(store, STEPS, after(3.5)) for _ in range(2)] == [1, 0]
    part = invoice.payable_cents - 1
    paid(store, invoice, after(4), part)
    assert take_steps(store, STEPS, after(10)) == 1
    first, second = told(store)
    assert (first["step"], second["step"]) == ("reminder", "second_reminder")
    assert (first["number"], second["due_usd"]) == (invoice.number, "0.01")
    paid(store, invoice, after(11), 1)
    assert take_steps(store, STEPS, after(999)) == 0
    assert holds(store)


def test_those_who_look_at_once_take_a_step_once(store: Store) -> None:
    issued(store)
    with ThreadPoolExecutor(3) as threads:
        works = [threads.submit(take_steps, store, STEPS, after(5)) for _ in range(3)]
        assert sum(work.result(60) for work in works) == 1
    assert steps_told(store) == ["reminder"]


def test_killed_between_step_and_event_it_is_taken_again_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    issued(store)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(dunning, "_tell", killed)
        with pytest.raises(KeyboardInterrupt):
            take_steps(store, STEPS, after(5))
    assert steps_told(store) == []
    assert take_steps(store, STEPS, after(5)) == 1
    assert steps_told(store) == ["reminder"]
