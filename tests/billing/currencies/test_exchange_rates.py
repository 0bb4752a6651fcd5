"""Exchange rates are dated data; a document shows one of them, fixed when it is issued."""

from __future__ import annotations

from dataclasses import astuple
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.credit_notes.crediting import credit
from billing.currencies.conversion import Conversion, is_currency, shown_currency
from billing.currencies.exchange_rate import NANO_MAX, NANO_MIN, BadRate, ExchangeRate
from billing.currencies.store import put_rate, rates, shown
from billing.db.engine import Store
from billing.documents import store as files
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.en16931 import Profile
from billing.documents.forms.json_text import value_of
from billing.documents.parties import parties_of
from billing.invoices import life, one_off
from billing.invoices.guards import Guards
from billing.invoices.months import list_invoices, preview
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.parties import store as parties
from billing.parties.party import BadParty
from billing.payments.paying import NotPayable
from billing.payments.payment import Receipt
from billing.settings import LedgerSettings, TaxSettings, guards_of
from billing.top_ups.topping_up import top_up
from tests.billing.documents.rules import complaints, peppol_errors
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN, document, used

TODAY = datetime.fromtimestamp(IN_NOVEMBER_US // 10**6, UTC).date()
DAY_US = 86_400_000_000
MISSING = "no_exchange_rate: nobody has said within 10 days how much EUR a USD is"
WORDS = {"by": "a", "now_us": IN_NOVEMBER_US}
CHF = 900_000_000


def rate(days_ago: int, nano: int, currency: str = "EUR", at_us: int = 1) -> ExchangeRate:
    of = {"currency": currency, "day": TODAY - timedelta(days=days_ago), "nano_per_usd": nano}
    return ExchangeRate(**of, source="ECB", set_by="a", set_us=at_us)


@given(st.integers(NANO_MIN, NANO_MAX), st.integers(-(10**12), 10**12))
def test_amount_is_converted_to_the_nearest_cent_and_a_half_away_from_zero(
    nano: int, cents: int
) -> None:
    at = Conversion("EUR", nano, TODAY, "ECB")
    for converted, exact in (
        (at.cents(cents), Fraction(cents * nano, 10**9)),
        (at.usd_cents(cents), Fraction(cents * 10**9, nano)),
    ):
        assert abs(converted - exact) <= Fraction(1, 2)
        assert abs(converted) >= abs(exact) or abs(converted - exact) < Fraction(1, 2)
    assert at.cents(-cents) == -at.cents(cents)


def test_currency_is_one_of_iso_that_has_cents() -> None:
    assert all(map(is_currency, ("EUR", "CHF", "USD")))
    assert not any(map(is_currency, ("JPY", "KWD", "XXX", "XAU", "EURO", "eur", "")))
    assert shown_currency("", "USD") is shown_currency("USD", "EUR") is None
    assert (shown_currency("EUR", "CHF"), shown_currency("", "CHF")) == ("EUR", "CHF")


def test_settings_say_how_old_a_rate_may_be() -> None:
    assert guards_of(LedgerSettings(), TaxSettings(exchange_rate_days_max=3)).rate_days == 3


@pytest.fixture
def store(either_store: Store) -> Store:
    return sold(either_store)


def sold(store: Store) -> Store:
    """Of a seller in Germany who owes tax in euros, with a charge of October."""
    address = replace(GERMAN.address, lines=("1 Main Street",))
    seller = replace(SELLER, address=address, tax_currency="EUR", electronic_address="EM:a@b.de")
    buyer = replace(GERMAN, electronic_address="EM:c@d.de", buyer_reference="ref")
    parties.put_seller(store, seller, 1)
    parties.put_profile(store, buyer, 1)
    parties.put_rule(store, DOMESTIC, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    return store


def test_rate_is_put_once_and_listed_with_the_newest_day_first(store: Store) -> None:
    first = put_rate(store, rate(2, 910_000_000))
    assert put_rate(store, rate(2, 910_000_000, at_us=9)) == first, "the same again is no change"
    francs, euros = rate(1, CHF, "CHF"), rate(1, 920_000_000)
    for each in (francs, euros):
        put_rate(store, each)
    assert rates(store) == [francs, euros, first]
    assert rates(store, after=(euros.day.isoformat(), "CHF"), limit=1) == [euros]
    assert rates(store, currency="EUR", after=(euros.day.isoformat(), "EUR")) == [first]
    changed = put_rate(store, rate(2, 910_000_001, at_us=9))
    assert (changed.set_us, rates(store, currency="EUR")) == (9, [euros, changed])
    for field, wrong in (
        ("currency", rate(1, 10**9, "USD")),
        ("currency", rate(1, 10**9, "JPY")),
        ("units_per_usd", rate(1, NANO_MIN - 1)),
        ("units_per_usd", rate(1, NANO_MAX + 1)),
    ):
        with pytest.raises(BadRate) as refused:
            put_rate(store, wrong)
        assert refused.value.field == field


def test_newest_rate_counts_that_is_neither_to_come_nor_too_old(store: Store) -> None:
    def counts() -> int | None:
        with store.read() as conn:
            party = replace(SELLER, tax_currency="EUR"), replace(GERMAN, currency="CHF")
            found = shown(conn, party, IN_NOVEMBER_US, 10)
        assert found is not None and found.currency == "EUR"
        return found.conversion and found.conversion.nano_per_usd

    for days_ago, nano, counted in (
        *((11, 10**8, None), (-1, 2 * 10**8, None), (10, 3 * 10**8, 3 * 10**8)),
        *((4, 4 * 10**8, 4 * 10**8), (9, 5 * 10**8, 4 * 10**8), (0, 6 * 10**8, 6 * 10**8)),
    ):
        put_rate(store, rate(days_ago, nano))
        assert counts() == counted


def test_party_has_a_currency_of_iso(sqlite_store: Store) -> None:
    store = sold(sqlite_store)
    with pytest.raises(BadParty) as refused:
        parties.put_seller(store, replace(SELLER, tax_currency="JPY"), 2)
    assert refused.value.field == "tax_currency"
    with pytest.raises(BadParty) as refused:
        parties.put_profile(store, replace(GERMAN, currency="EUX"), 2)
    assert refused.value.field == "currency"


def test_invoice_waits_for_a_rate_and_keeps_the_one_it_was_issued_with(store: Store) -> None:
    (parked,) = run(store, "2026-10")
    assert parked.draft_because == parked.parked_because == (MISSING,)
    invoice_id = parked.invoice["invoice_id"]
    assert life.approve(store, invoice_id, **WORDS).parked_because == (MISSING,)
    with pytest.raises(WrongInvoiceStatus, match="no_exchange_rate"):
        life.issue(store, invoice_id, series="SLU", **WORDS)
    assert parked.converted is None
    put_rate(store, rate(3, 925_000_000))
    seen = preview(store, "org_1", "2026-10", now_us=IN_NOVEMBER_US)
    (listed,) = list_invoices(store, now_us=IN_NOVEMBER_US)
    assert seen and seen.converted == listed.converted and not listed.parked_because
    (late,) = list_invoices(store, now_us=IN_NOVEMBER_US, guards=Guards(rate_days=2))
    assert late.parked_because == (MISSING.replace("10", "2"),)
    (issued,) = run(store, "2026-10")
    assert issued.number and issued.converted == listed.converted
    made = document(store, issued)
    assert made.converted == issued.converted
    said = value_of(made)["converted"]
    assert (said["currency"], said["rate"]) == ("EUR", "0.925")
    assert said["due"] == f"{(issued.payable_cents * 925 + 500) // 1000 / 100:.2f}"
    put_rate(store, rate(3, 500_000_000))
    put_rate(store, rate(0, 600_000_000))
    assert run(store, "2026-10") == [issued]
    assert list_invoices(store, now_us=IN_NOVEMBER_US) == [issued]
    assert document(store, issued) == made
    assert holds(store)


def test_e_invoice_says_its_tax_in_the_currency_of_the_tax(sqlite_store: Store) -> None:
    store = sold(sqlite_store)
    put_rate(store, rate(0, 925_000_000))
    (issued,) = run(store, "2026-10")
    made = document(store, issued)
    assert made.converted is not None
    tax = f"{made.converted.tax_cents / 100:.2f}"
    for syntax in Syntax:
        xml = xml_of(made, syntax)
        assert complaints(xml, syntax) == []
        assert f'currencyID="EUR">{tax}<'.encode() in xml
    assert peppol_errors(xml_of(made, Syntax.UBL, Profile.PEPPOL)) == []


def test_credit_note_has_the_rate_of_its_invoice_and_a_new_invoice_that_of_its_day(
    store: Store,
) -> None:
    put_rate(store, rate(0, 925_000_000))
    (first,) = run(store, "2026-10")
    invoice_id = first.invoice["invoice_id"]
    void(store, invoice_id, reason="wrong", **WORDS)
    put_rate(store, rate(0, 950_000_000))
    (second,) = run(store, "2026-10")
    assert rate_of(first) == 925_000_000 and rate_of(second) == 950_000_000
    (voided, _) = list_invoices(store, now_us=IN_NOVEMBER_US)
    assert rate_of(voided) == 925_000_000
    put_rate(store, rate(0, 999_000_000))
    words = {"external_id": "t", "reason": "outage", "amount_cents": 100}
    note = credit(store, second.invoice["invoice_id"], **words, **WORDS)
    assert note.total_cents == 100 and rate_of(second) == 950_000_000
    (_, credited) = list_invoices(store, now_us=IN_NOVEMBER_US)
    left = second.payable_cents - 100
    assert credited.converted and credited.converted.due_cents == (left * 95 + 50) // 100
    assert holds(store)


def rate_of(result: InvoiceResult) -> int:
    assert result.conversion is not None
    return result.conversion.nano_per_usd


def test_buyer_reads_totals_in_a_currency_where_its_seller_owes_tax_in_none(store: Store) -> None:
    parties.put_seller(store, replace(SELLER, tax_currency=""), 2)
    (issued,) = run(store, "2026-10")
    assert issued.number and issued.converted is None, "dollars alone"
    parties.put_profile(store, replace(GERMAN, currency="CHF"), 2)
    put_rate(store, rate(1, 925_000_000))
    item = [one_off.Item("Onboarding", 1, 100 * 10**9)]
    draft = one_off.draft(store, "org_1", item, now_us=IN_NOVEMBER_US)
    words = {"now_us": IN_NOVEMBER_US, "series": "SLU"}
    with pytest.raises(WrongInvoiceStatus, match="CHF"):
        one_off.issue(store, draft.invoice["invoice_id"], **words)
    put_rate(store, rate(1, CHF, "CHF"))
    result = one_off.issue(store, draft.invoice["invoice_id"], **words)
    assert result.converted and astuple(result.converted)[1:] == (1_710, 10_710, 10_710)
    with store.read() as conn:
        assert parties_of(conn, result.invoice) is not None
    assert holds(store)


def test_receipt_of_a_top_up_freezes_the_rate(sqlite_store: Store) -> None:
    store = sold(sqlite_store)
    money = Receipt("org_1", "wire-1", 1_000, IN_NOVEMBER_US)
    with pytest.raises(NotPayable) as refused:
        top_up(store, money, **WORDS)
    assert (refused.value.code, str(refused.value)) == ("no_exchange_rate", MISSING)
    put_rate(store, rate(1, 925_000_000))
    state, is_new = top_up(store, money, **WORDS)
    put_rate(store, rate(0, 500_000_000))
    assert is_new and top_up(store, money, **WORDS) == (state, False)
    with store.read() as conn:
        receipt = files.frozen(conn, state.top_up["top_up_id"])
    assert receipt is not None
    assert value_of(receipt)["converted"] == {
        **{"currency": "EUR", "rate": "0.925", "source": "ECB"},
        "day": (TODAY - timedelta(days=1)).isoformat(),
        **{"tax": "0.00", "total": "9.25", "due": "0.00"},
    }
    assert holds(store)
