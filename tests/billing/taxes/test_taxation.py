"""Tax is of each category, rounded once, booked with the number, and taken back with the void."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import text

from billing.cents import tax_of
from billing.credit_notes import store as notes
from billing.credit_notes.crediting import credit
from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store
from billing.documents.document import Document
from billing.documents.forms.amounts import percent
from billing.documents.forms.csv_table import rows_of
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_rows
from billing.documents.forms.json_text import value_of
from billing.documents.forms.printed import page_of
from billing.documents.invoice_document import categories_of, document_of
from billing.documents.note_document import note_document
from billing.documents.parties import parties_of
from billing.invoices.months import invoice_by_id
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import void
from billing.money import NANOUSD_PER_CENT, whole_cents
from billing.parties import store as parties
from billing.taxes.tax_rule import NO_RULE, BadTaxRule, TaxRule
from billing.taxes.taxation import TaxBasis, account_of
from tests.billing.documents.rules import complaints
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    OCTOBER,
    SEPTEMBER,
    book,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import (
    ASPEN,
    BUYER,
    COUNTY,
    EXEMPT,
    REVERSE,
    SELLER,
    STATE,
)

DOMESTIC = TaxRule(rule_id="de", category="S", rate_ppm=190_000, from_us=0, buyer_country="DE")
GERMAN = replace(
    BUYER,
    org="org_1",
    vat_id="DE129273398",
    address=replace(BUYER.address, country="DE", region="", city="Wien", postal_code="1"),
)
DISTRICT = replace(
    STATE, rule_id="rtd", jurisdiction="RTD", rate_ppm=11_000, buyer_city="denver",
)  # fmt: skip
AMERICAN = replace(ASPEN, address=replace(ASPEN.address, city="Denver", postal_code="80202-1234"))
ZERO = TaxRule(rule_id="zero", category="Z", from_us=0, note="none")
MONTHS = (1, 2, 3)


@st.composite
def _lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    line = st.fixed_dictionaries(
        {
            "kind": st.sampled_from(("usage", "credit", "rounding")),
            "grant_id": st.sampled_from(("", "paid", "promo")),
            "service_end_us": st.sampled_from(MONTHS),
            "amount_nanousd": st.integers(-(10**12), 10**12),
        }
    )
    return [{**each, "seq": seq} for seq, each in enumerate(draw(st.lists(line)), start=1)]


@given(_lines(), st.integers(1, 10**6))
def test_tax_is_the_rate_of_what_its_lines_sum_to(lines: list[dict[str, Any]], ppm: int) -> None:
    rules = {1: (DOMESTIC,), 2: (replace(DOMESTIC, rate_ppm=ppm),), 3: (ZERO,)}
    taxation = TaxBasis(SELLER, rules, {"paid"}).taxation(lines)
    base = [each for each in lines if each["kind"] != "rounding" and each["grant_id"] != "paid"]
    assert set(taxation.places) == {each["seq"] for each in base}
    total = sum(each["amount_nanousd"] for each in base)
    assert sum(tax.base_cents for tax in taxation.amounts) == whole_cents(total)
    for place, tax in enumerate(taxation.amounts, start=1):
        own = sum(each["amount_nanousd"] for each in base if taxation.places[each["seq"]] == place)
        assert abs(tax.base_cents * NANOUSD_PER_CENT - own) < NANOUSD_PER_CENT
        assert tax.tax_cents == tax_of(tax.base_cents, tax.treatment.rate_ppm)
    assert TaxBasis(SELLER, {**rules, 1: ()}, {"paid"}).taxation(lines).amounts == ()


@given(_lines(), st.booleans())
def test_cents_of_lines_sum_to_the_total_and_to_each_base(
    lines: list[dict[str, Any]], taxed: bool
) -> None:
    rules = {1: (DOMESTIC,), 2: (DOMESTIC,), 3: (ZERO,) if taxed else ()}
    taxation = TaxBasis(SELLER, rules, {"paid"}).taxation(lines)
    total = whole_cents(sum(line["amount_nanousd"] for line in lines))
    cents = taxation.cents(lines, total)
    assert sum(cents.values()) == (total if lines else 0)
    assert set(cents) == {line["seq"] for line in lines}
    of_bases = dict.fromkeys(taxation.places.values(), 0)
    for seq, place in taxation.places.items():
        of_bases[place] += taxation.taxed_cents(lines)[seq]
    assert list(dict(sorted(of_bases.items())).values()) == [x.base_cents for x in taxation.amounts]
    for line in lines[:-1]:
        off = cents[line["seq"]] * NANOUSD_PER_CENT - line["amount_nanousd"]
        assert line["kind"] == "rounding" or abs(off) < NANOUSD_PER_CENT


@given(_lines(), st.lists(st.integers(1, 10**5), min_size=1, max_size=5))
def test_taxes_of_jurisdictions_are_rounded_each_and_sum(
    lines: list[dict[str, Any]], rates: list[int]
) -> None:
    stacked = tuple(
        replace(STATE, rule_id=str(n), jurisdiction=str(n), rate_ppm=rate)
        for n, rate in enumerate(rates)
    )
    taxation = TaxBasis(SELLER, dict.fromkeys(MONTHS, stacked), {"paid"}).taxation(lines)
    assert [part.jurisdiction for part in taxation.parts] == [
        rule.jurisdiction for _ in taxation.amounts for rule in stacked
    ]
    for part in taxation.parts:
        assert part.tax_cents == tax_of(part.base_cents, part.rate_ppm)
    assert taxation.tax_cents == sum(part.tax_cents for part in taxation.parts)
    assert len(taxation.amounts) <= 1, "one treatment, one base"
    assert len({part.account for part in taxation.parts}) == len(taxation.parts)


@pytest.fixture
def store(either_store: Store) -> Store:
    parties.put_seller(either_store, replace(SELLER, address=GERMAN.address), 1)
    parties.put_profile(either_store, GERMAN, 1)
    return either_store


def accounts(store: Store) -> dict[str, int]:
    """Credits less debits, in cents, of accounts that have any."""
    with store.read() as conn:
        rows = conn.execute(text("SELECT code, credits - debits FROM account")).all()
    return {code: whole_cents(int(left)) for code, left in rows if left}


def document(store: Store, result: InvoiceResult) -> Document:
    with store.read() as conn:
        again = invoice_by_id(conn, result.invoice["invoice_id"], IN_NOVEMBER_US)
        named = parties_of(conn, result.invoice)
    assert again == result and named is not None
    categories = categories_of(store, result.lines)
    made = document_of(
        result, seller=named.seller, buyer=named.buyer, categories=categories, terms=named.terms
    )
    assert made.totals.due_cents == result.payable_cents
    assert [(tax.base_cents, tax.tax_cents) for tax in made.taxes] == [
        (tax.base_cents, tax.tax_cents) for tax in result.taxation.amounts
    ]
    return made


def used(store: Store, rid: str, at_us: int, now_us: int = IN_NOVEMBER_US) -> None:
    book(store, call(store, rid, at_us, output=3_456_789_012), now_us=now_us)


def test_domestic_tax_is_booked_with_the_number_and_goes_with_the_void(store: Store) -> None:
    parties.put_rule(store, DOMESTIC, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    before = accounts(store)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    (issued,) = run(store, "2026-10")
    assert draft.taxation.tax_cents == issued.taxation.tax_cents > 0 and issued.number
    made = document(store, issued)
    tax = tax_of(made.totals.net_cents, 190_000)
    assert (made.totals.tax_cents, issued.invoice["tax_cents"]) == (tax, tax)
    booked = accounts(store)
    assert booked["tax:s:DE"] == tax
    assert -booked["org:org_1:receivable"] == issued.payable_cents == made.totals.total_cents
    assert run(store, "2026-10") == [issued]
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert holds(store)
    void(store, issued.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert accounts(store) == before
    assert holds(store)
    (again,) = run(store, "2026-10")
    assert again.taxation == issued.taxation and again.number != issued.number
    assert holds(store)


def test_late_usage_has_the_rate_of_its_own_month(store: Store) -> None:
    parties.put_rule(store, replace(DOMESTIC, rate_ppm=160_000, to_us=SEPTEMBER.end_us), 1)
    parties.put_rule(store, replace(DOMESTIC, rule_id="new", from_us=SEPTEMBER.end_us), 1)
    used(store, "req_1", SEPTEMBER.end_us - 1, IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (september,) = run(store, "2026-09")
    assert [tax.treatment.rate_ppm for tax in september.taxation.amounts] == [160_000]
    used(store, "req_2", SEPTEMBER.end_us - 1)
    used(store, "req_3", IN_OCTOBER_US)
    (october,) = run(store, "2026-10")
    assert [tax.treatment.rate_ppm for tax in october.taxation.amounts] == [160_000, 190_000]
    made = document(store, october)
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert holds(store)


@pytest.mark.parametrize("category", Category)
def test_promotional_credit_lowers_what_is_taxed_and_paid_credit_what_is_due(
    store: Store, category: Category
) -> None:
    parties.put_rule(store, DOMESTIC, 1)
    grant = Grant(
        grant_id="grant_1", org="org_1", category=category, amount_nanousd=10**9,
        effective_us=OCTOBER.start_us, created_us=OCTOBER.start_us,
    )  # fmt: skip
    give(store, grant, created_by="a", now_us=OCTOBER.start_us)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (issued,) = run(store, "2026-10")
    sold = sum(line["amount_nanousd"] for line in issued.lines if line["kind"] == "usage")
    taxed = sold if category is Category.PAID else sold - 10**9
    (tax,) = issued.taxation.amounts
    assert tax.base_cents == whole_cents(taxed)
    made = document(store, issued)
    assert made.totals.paid_cents == (100 if category is Category.PAID else 0)
    assert holds(store)
    void(store, issued.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert holds(store)


def test_reverse_charge_needs_both_vat_ids(store: Store) -> None:
    parties.put_rule(store, REVERSE, 1)
    parties.put_profile(store, replace(GERMAN, vat_id=""), 2)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (parked,) = run(store, "2026-10")
    assert parked.parked_because == (NO_RULE,) and not parked.taxation.amounts
    parties.put_profile(store, replace(GERMAN, vat_id="DE129273398"), 3)
    (issued,) = run(store, "2026-10")
    assert [(tax.treatment.category, tax.tax_cents) for tax in issued.taxation.amounts] == [
        ("AE", 0)
    ]
    made = document(store, issued)
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert "tax:s:DE" not in accounts(store)
    assert holds(store)


def test_taxes_of_jurisdictions_add_up_in_every_form_and_are_taken_back(store: Store) -> None:
    parties.put_profile(store, AMERICAN, 2)
    for rule in (STATE, COUNTY, DISTRICT, replace(STATE, rule_id="aurora", buyer_city="Aurora")):
        if rule.rule_id == "aurora":
            with pytest.raises(BadTaxRule, match="'co' is a rule of 'Colorado'"):
                parties.put_rule(store, rule, 1)
        else:
            parties.put_rule(store, rule, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    before = accounts(store)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    (issued,) = run(store, "2026-10")
    assert draft.taxation == issued.taxation
    (amount,) = issued.taxation.amounts
    base = amount.base_cents
    owed = {
        "tax:s:US-CO:Colorado": tax_of(base, 29_000),
        "tax:s:US-CO:Denver-County": tax_of(base, 48_100),
        "tax:s:US-CO:RTD": tax_of(base, 11_000),
    }
    assert {part.account: part.tax_cents for part in issued.taxation.parts} == owed
    booked = accounts(store)
    assert {code: booked[code] for code in owed} == owed
    assert -booked["org:org_1:receivable"] == issued.payable_cents == base + sum(owed.values())
    made = document(store, issued)
    stated = value_of(made)["taxes"]
    assert {each["jurisdiction"]: (each["rate"], each["tax_cents"]) for each in stated} == {
        part.jurisdiction: (percent(part.rate_ppm), part.tax_cents)
        for part in issued.taxation.parts
    }
    assert sum(row["amount_cents"] for row in rows_of(made)) == made.totals.total_cents
    of_tax = [row for row in focus_rows(made) if row["ChargeCategory"] == "Tax"]
    assert sum(Decimal(row["BilledCost"]) for row in of_tax) * 100 == sum(owed.values())
    assert len(page_of(made, None)["taxes"]) == 3
    for syntax in Syntax:
        xml = xml_of(made, syntax)
        assert complaints(xml, syntax) == []
        assert b"Denver County 4.81 %" in xml
    note = credit(
        store, issued.invoice["invoice_id"], external_id="1", reason="a", by="a",
        now_us=IN_NOVEMBER_US, amount_cents=1_001,
    )  # fmt: skip
    assert note.total_cents == 1_001
    assert holds(store)
    with store.read() as conn:
        taxes = notes.taxes_of(conn, note.note["note_id"])
    credited = note_document(note.note, note.number, note.lines, taxes, made)
    assert credited.totals.total_cents == 1_001
    assert len(value_of(credited)["taxes"]) == 3
    for syntax in Syntax:
        assert complaints(xml_of(credited, syntax), syntax) == []
    rest = {"external_id": "2", "reason": "a", "by": "a", "now_us": IN_NOVEMBER_US}
    credit(store, issued.invoice["invoice_id"], **rest)
    left = accounts(store)
    assert all(left.get(code, 0) == before.get(code, 0) for code in owed), "all of it is back"
    assert holds(store)


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9 .'-]{0,5}", fullmatch=True)


@given(names, names)
def test_each_jurisdiction_has_an_account_of_its_own(one: str, other: str) -> None:
    codes = {account_of(replace(STATE, jurisdiction=name), SELLER) for name in (one, other)}
    assert len(codes) == len({one, other})


def test_buyer_is_parked_where_a_local_tax_is_missing_and_exempt_by_a_certificate(
    store: Store,
) -> None:
    parties.put_profile(store, ASPEN, 2)
    for rule in (STATE, COUNTY, EXEMPT):
        parties.put_rule(store, rule, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (parked,) = run(store, "2026-10")
    (because,) = parked.parked_because
    assert "no tax rule of level local" in because and not parked.taxation.amounts
    certified = replace(ASPEN, exemption="CO-98-12345", exemption_until_us=OCTOBER.end_us - 1)
    parties.put_profile(store, certified, 3)
    assert run(store, "2026-10")[0].parked_because == (because,), "it ends before the month does"
    parties.put_profile(store, replace(certified, exemption_until_us=OCTOBER.end_us), 4)
    (issued,) = run(store, "2026-10")
    (tax,) = issued.taxation.amounts
    assert (tax.treatment.category, tax.tax_cents) == ("E", 0)
    made = document(store, issued)
    assert "CO-98-12345" in page_of(made, None)["taxes"][0][0]
    assert "CO-98-12345" in value_of(made)["taxes"][0]["note"]
    for syntax in Syntax:
        xml = xml_of(made, syntax)
        assert complaints(xml, syntax) == [] and b"CO-98-12345" in xml
    assert holds(store)


def test_void_takes_taxes_of_jurisdictions_back(store: Store) -> None:
    parties.put_profile(store, AMERICAN, 2)
    for rule in (STATE, COUNTY):
        parties.put_rule(store, rule, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    before = accounts(store)
    (issued,) = run(store, "2026-10")
    void(store, issued.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert accounts(store) == before
    assert holds(store)
