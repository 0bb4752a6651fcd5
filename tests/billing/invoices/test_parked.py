"""What a person must clear parks an invoice; who bills whom is frozen with its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from billing.cents import tax_of
from billing.db.engine import Store
from billing.invoices import months, runs
from billing.invoices import store as rows
from billing.invoices.months import list_invoices
from billing.invoices.runs import RunState, start
from billing.parties import store as parties
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    OCTOBER,
    book,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.invoices.test_runs import finished
from tests.billing.taxes.test_tax_rule import BUYER, REVERSE, SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN

NO_PROFILE, NO_RULE = (
    "it has no billing profile",
    "no tax rule fits its seller and its buyer",
)
DAY_US = 86_400_000_000


@pytest.fixture
def store(either_store: Store) -> Store:
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US))
    caught_up(either_store, IN_NOVEMBER_US)
    return either_store


def test_invoice_is_parked_until_its_profile_and_its_tax_are_said(store: Store) -> None:
    parties.put_seller(store, replace(SELLER, series="EU"), 1)
    (parked,) = run(store, "2026-10")
    assert (parked.number, parked.parked_because) == (None, (NO_PROFILE,))
    parties.put_profile(store, replace(BUYER, org="org_1"), 2)
    (parked,) = run(store, "2026-10")
    assert parked.draft_because == parked.parked_because == (NO_RULE,)
    (listed,) = list_invoices(store, now_us=IN_NOVEMBER_US)
    assert listed.parked_because == (NO_RULE,)
    ended = replace(REVERSE, to_us=OCTOBER.end_us - 1)
    parties.put_rule(store, ended, 3)
    assert run(store, "2026-10")[0].parked_because == (NO_RULE,), "its month ends after the rule"
    parties.put_rule(store, REVERSE, 4)
    (issued,) = run(store, "2026-10")
    assert (issued.number, issued.parked_because) == ("EU-2026-000001", ())
    assert holds(store)


def test_parties_of_an_issued_invoice_stay_as_they_were(store: Store) -> None:
    buyer = replace(BUYER, org="org_1", payment_terms_days=14)
    parties.put_seller(store, SELLER, 1)
    parties.put_profile(store, buyer, 1)
    parties.put_rule(store, REVERSE, 1)
    (issued,) = run(store, "2026-10")
    parties.put_seller(store, replace(SELLER, legal_name="Other", series="OTHER"), 2)
    parties.put_profile(store, replace(buyer, legal_name="Other"), 2)
    parties.delete_rule(store, REVERSE.rule_id)
    assert run(store, "2026-10") == [issued]
    with store.read() as conn:
        frozen = rows.parties_of(conn, issued.invoice["invoice_id"])
    assert frozen is not None
    assert frozen[:3] == (SELLER, buyer, REVERSE)
    assert frozen.due_us - frozen.issued_us == 14 * DAY_US


@pytest.mark.parametrize("what", ["profile", "seller", "rule"])
def test_what_changes_while_a_run_composes_is_billed_as_it_is_when_it_is_issued(
    store: Store, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """No document has half of the one and half of the other."""
    changes: dict[str, Callable[[], object]] = {
        "profile": lambda: parties.put_profile(store, replace(GERMAN, legal_name="Moved"), 9),
        "seller": lambda: parties.put_seller(store, replace(SELLER, series="MOVED"), 9),
        "rule": lambda: parties.put_rule(store, replace(DOMESTIC, rate_ppm=70_000), 9),
    }
    book(store, call(store, "req_2", IN_OCTOBER_US, output=3_456_789_012))
    parties.put_seller(store, SELLER, 1)
    parties.put_profile(store, GERMAN, 1)
    parties.put_rule(store, DOMESTIC, 1)
    composed = months.compose

    def changing(*parts: Any) -> Any:
        changes.pop(what, lambda: None)()
        return composed(*parts)

    monkeypatch.setattr(months, "compose", changing)
    (issued,) = run(store, "2026-10")
    monkeypatch.undo()
    with store.read() as conn:
        frozen = rows.parties_of(conn, issued.invoice["invoice_id"])
        now = parties.billed_as(conn, "org_1", OCTOBER.end_us - 1)
    assert frozen is not None and now is not None and now.rule is not None
    assert frozen[:3] == now and what not in changes
    assert issued.number == f"{now.seller.series}-2026-000001"
    assert issued.taxation.tax_cents == tax_of(issued.invoice["total_cents"], now.rule.rate_ppm)
    assert run(store, "2026-10") == [issued]
    assert holds(store)


def test_where_nobody_sells_nothing_is_asked(store: Store) -> None:
    (issued,) = run(store, "2026-10")
    assert (issued.number, issued.parked_because) == ("SLU-2026-000001", ())
    with store.read() as conn:
        assert rows.parties_of(conn, issued.invoice["invoice_id"]) is None


def test_run_does_not_wait_for_what_a_person_must_clear(store: Store) -> None:
    parties.put_seller(store, SELLER, 1)
    run_of_month = finished(store, start(store, "2026-10", now_us=IN_NOVEMBER_US))
    assert (run_of_month.state, run_of_month.waiting) == (RunState.DONE, 0)
    assert runs.listed(store) == [run_of_month]
