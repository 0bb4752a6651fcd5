"""Terms on invoices of a real ledger: lines, their transfers, late usage and voids, both
databases."""

from __future__ import annotations

from datetime import date

import pytest
from msgspec.structs import replace

from billing.charges.trace import line_transfers
from billing.credits.credit import Category
from billing.db.engine import Store
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_rows
from billing.documents.forms.json_text import value_of
from billing.documents.invoice_document import BuyerTerms, document_of
from billing.invoices.result import InvoiceResult
from billing.invoices.terms import MonthBilled, put_terms
from billing.invoices.voids import void
from billing.money import whole_cents
from billing.parties import store as parties
from billing.terms.term import (
    AllowanceTerm,
    AmountTerm,
    MinimumTerm,
    PercentTerm,
    PriceStep,
    Term,
    TierTerm,
)
from tests.billing.documents.made import GERMAN, SELLER, STANDARD
from tests.billing.documents.rules import complaints
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
from tests.billing.invoices.test_voids import balance
from tests.billing.taxes.test_tax_rule import BUYER
from tests.billing.taxes.test_tax_rule import SELLER as OUR_SELLER

USD = 10**9
ORG = "org_1"
FROM = {"first_month": "2026-09"}
TENTH = PercentTerm(term_id="tenth", rate_ppm=100_000, **FROM)
CENT = AmountTerm(term_id="cent", amount_nanousd=10_000_000, **FROM)
MINIMUM = MinimumTerm(term_id="least", amount_nanousd=5 * USD, **FROM)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def used(store: Store, rid: str, at_us: int = IN_OCTOBER_US, output: int = 50_000_000) -> int:
    made = call(store, rid, at_us, output=output)
    book(store, made)
    return made.amount_nanousd


def of_terms(result: InvoiceResult) -> dict[tuple[str, str], int]:
    return {
        (line["kind"], line["description"].rpartition(", ")[2]): line["amount_nanousd"]
        for line in result.lines
        if line["term_id"]
    }


def test_discounts_are_lines_and_transfers_of_a_final_invoice_as_of_its_draft(
    store: Store,
) -> None:
    charged = used(store, "req_1")
    put_terms(store, ORG, [TENTH], 1)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    put_terms(store, ORG, [TENTH, CENT], 2)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    off = sum(line["amount_nanousd"] for line in draft.lines if line["kind"] == "discount")
    assert off == -whole_tenth(charged) - CENT.amount_nanousd
    assert draft.invoice["subtotal_nanousd"] == charged + off
    assert balance(store, "unbilled") == charged, "a draft books nothing"
    assert line_transfers(store, draft.invoice["invoice_id"], 4) == [] and holds(store)
    caught_up(store, IN_NOVEMBER_US)
    (final,) = run(store, "2026-10")
    assert final.lines == draft.lines and final.number
    assert (balance(store, "unbilled"), balance(store, "receivable")) == (
        0,
        final.total_nanousd,
    )
    for line in final.lines:
        if line["kind"] == "discount":
            (behind,) = line_transfers(store, line["invoice_id"], line["seq"])
            assert behind["amount_nanousd"] == line["amount_nanousd"]
    assert holds(store)
    void(store, final.invoice["invoice_id"], reason="wrong", by="a", now_us=IN_NOVEMBER_US)
    assert (balance(store, "unbilled"), balance(store, "receivable")) == (charged, 0)
    (again,) = run(store, "2026-10")
    assert of_terms(again) == of_terms(final) and holds(store)


def test_term_without_a_name_speaks_the_language_that_the_profile_has_before_issue(
    store: Store,
) -> None:
    used(store, "req_1")
    put_terms(store, ORG, [TENTH], 1)
    parties.put_seller(store, OUR_SELLER, 1)
    parties.put_profile(store, replace(BUYER, org=ORG), 1)
    said = []
    for language in ("en", "de"):
        parties.put_profile(store, replace(BUYER, org=ORG, language=language), 2)
        (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
        said += [line["description"] for line in draft.lines if line["kind"] == "discount"]
    assert said == ["10 % discount, 2026-10", "10 % Rabatt, 2026-10"]


def whole_tenth(amount: int) -> int:
    return round(amount / 10)


def test_minimum_is_owed_without_usage_and_late_usage_gives_it_back(store: Store) -> None:
    put_terms(store, ORG, [MINIMUM], 1)
    assert run(store, "2026-10", now_us=SEPTEMBER.end_us - 1) == [], "it has not begun"
    caught_up(store, IN_NOVEMBER_US)
    (september,) = run(store, "2026-09", now_us=IN_OCTOBER_US)
    assert (september.total_nanousd, september.number is not None) == (5 * USD, True)
    late = used(store, "req_1", SEPTEMBER.end_us - 1)
    (october,) = run(store, "2026-10")
    assert of_terms(october) == {
        ("minimum", "2026-09"): -late,
        ("minimum", "2026-10"): 5 * USD,
    }
    assert october.total_nanousd == 5 * USD and holds(store)
    assert run(store, "2026-10") == [october]


def test_terms_of_a_billed_month_stay_until_it_is_void(store: Store) -> None:
    used(store, "req_1")
    put_terms(store, ORG, [TENTH], 1)
    caught_up(store, IN_NOVEMBER_US)
    (october,) = run(store, "2026-10")
    ended = PercentTerm(
        term_id="tenth", rate_ppm=100_000, first_month="2026-09", last_month="2026-10"
    )
    with pytest.raises(MonthBilled, match="2026-10"):
        put_terms(store, ORG, [TENTH, CENT], 2)
    with pytest.raises(MonthBilled):
        put_terms(store, ORG, [ended], 2)
    starting = AmountTerm(term_id="cent", amount_nanousd=1, first_month="2026-11")
    assert put_terms(store, ORG, [TENTH, starting], 2) == (TENTH, starting)
    void(store, october.invoice["invoice_id"], reason="wrong", by="a", now_us=IN_NOVEMBER_US)
    put_terms(store, ORG, [CENT], 3)
    (again,) = run(store, "2026-10")
    assert of_terms(again) == {("discount", "2026-10"): -CENT.amount_nanousd} and holds(store)


def test_discount_lowers_what_no_credit_has_paid_and_paid_credit_counts_for_a_minimum(
    store: Store,
) -> None:
    for category in Category:
        granted(store, f"grant_{category}", USD // 10, category=category)
    charged = used(store, "req_1", output=200_000_000)
    assert charged > USD // 5
    put_terms(store, ORG, [TENTH, MINIMUM], 1)
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    unpaid = charged - USD // 5
    assert of_terms(result) == {
        ("discount", "2026-10"): -whole_tenth(unpaid),
        ("minimum", "2026-10"): 5 * USD - (unpaid - whole_tenth(unpaid)) - USD // 10,
    }
    assert result.invoice["subtotal_nanousd"] == 5 * USD - USD // 10
    assert holds(store)
    void(store, result.invoice["invoice_id"], reason="wrong", by="a", now_us=IN_NOVEMBER_US)
    assert holds(store)


def test_every_form_has_the_terms_and_sums_to_what_is_due(store: Store) -> None:
    used(store, "req_1", output=3_000_001)
    used(store, "req_2", SEPTEMBER.end_us - 1, output=77_777)
    terms: list[Term] = [
        TENTH,
        CENT,
        AllowanceTerm(term_id="free", units=1_012_345, component="output", **FROM),
        TierTerm(
            term_id="steps",
            component="output",
            steps=(PriceStep(1_000_000, 11_111_111), PriceStep(None, 7_777_777)),
            **FROM,
        ),
        MINIMUM,
    ]
    put_terms(store, ORG, terms, 1)
    caught_up(store, IN_NOVEMBER_US)
    run(store, "2026-09")
    used(store, "req_3", SEPTEMBER.end_us - 1, output=55_555)
    (result,) = run(store, "2026-10")
    assert {kind for kind, _ in of_terms(result)} == {"tiers", "allowance", "discount", "minimum"}
    document = document_of(
        result,
        seller=SELLER,
        buyer=GERMAN,
        categories={},
        untaxed=STANDARD,
        terms=BuyerTerms(due=date(2026, 12, 1)),
    )
    assert document.totals.net_cents == result.invoice["total_cents"]
    assert all(line.unit_price_nanousd >= 0 for line in document.lines)
    said = value_of(document)
    assert {each["kind"] for each in said["discounts"]} == {"discount"}
    assert {line["kind"] for line in said["lines"] if line["quantity"] == -1} >= {"tiers"}
    billed = sum(round(float(row["BilledCost"]) * 100) for row in focus_rows(document))
    assert billed == document.totals.due_cents
    assert whole_cents(result.invoice["subtotal_nanousd"]) == document.totals.net_cents
    for syntax in Syntax:
        assert complaints(xml_of(document, syntax), syntax) == []
    assert holds(store)
