"""Documents as CSV, JSON and FOCUS: they sum to the total, and no cell is a formula."""

import csv
import io
import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from billing.documents.composing import compose
from billing.documents.document import Document, DocumentKind, Measure, Prepayment, Reduction
from billing.documents.forms.csv_table import COLUMNS, FORMULA_STARTS, csv_of
from billing.documents.forms.focus import COLUMNS as FOCUS_COLUMNS
from billing.documents.forms.focus import focus_csv
from billing.documents.forms.json_text import json_of
from billing.money import nanousd, whole_cents
from tests.billing.documents.made import EXEMPT, GERMAN, STANDARD, document, heading, line
from tests.laws.examples import examples

LAW = settings(max_examples=examples(60), deadline=None)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
hostile = st.builds(lambda start, rest: start + rest, st.sampled_from(["", " ", "=", "@"]), texts)
prices = st.integers(0, 10**10)
quantities = st.integers(-(10**9), 10**9)
rows_of_any = st.lists(st.tuples(quantities, prices, st.integers(-400, 400), hostile), max_size=8)


def made_of(rows: list[tuple[int, int, int, str]], kind: DocumentKind) -> Document:
    """Amounts are price times quantity, but for what the rounding of each call gives and takes."""
    lines = []
    for seq, (quantity, price, error, text) in enumerate(rows, 1):
        amount = (quantity * price + error * 1_000_000) // 1_000_000 if quantity else 0
        amount = max(amount, 0) if quantity > 0 else min(amount, 0)
        lines.append(
            line(
                seq,
                quantity=quantity,
                unit_price_nanousd=price,
                amount_nanousd=amount,
                description=text,
                project=text,
            )
        )
    return compose(
        heading(kind=kind, organization=rows[0][3] if rows else "org_1"),
        lines,
        reductions=[Reduction(100, "credit", "=promo()", 12_345_678, STANDARD)],
        prepayments=[Prepayment("-paid credit", 7_654_321)],
    )


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


@LAW
@given(rows_of_any, st.sampled_from([DocumentKind.INVOICE, DocumentKind.CREDIT_NOTE]))
@example([(1, 1, 0, "=cmd|' /C calc'!A0")], DocumentKind.INVOICE)
def test_csv_sums_to_the_total_and_no_cell_of_text_is_a_formula(
    rows: list[tuple[int, int, int, str]], kind: DocumentKind
) -> None:
    made = made_of(rows, kind)
    table = read(csv_of(made))
    assert sum(int(row["amount_cents"] or 0) for row in table) == made.totals.total_cents
    assert sum(int(row["paid_cents"] or 0) for row in table) == made.totals.paid_cents
    numbers = {"quantity", "amount_nanousd", "amount_usd", "amount_cents", "seq", "paid_cents"}
    for row in table:
        assert tuple(row) == COLUMNS
        for name, value in row.items():
            assert name in numbers or value.strip(" ")[:1] not in FORMULA_STARTS - {""}, name
        if row["amount_nanousd"]:
            assert nanousd(row["amount_usd"]) == int(row["amount_nanousd"])


@LAW
@given(rows_of_any, st.sampled_from([DocumentKind.INVOICE, DocumentKind.CREDIT_NOTE]))
def test_billed_cost_of_focus_is_what_is_due_and_costs_are_price_times_quantity(
    rows: list[tuple[int, int, int, str]], kind: DocumentKind
) -> None:
    made = made_of(rows, kind)
    table = read(focus_csv([made, made]))
    sign = -1 if kind is DocumentKind.CREDIT_NOTE else 1
    billed = sum(Decimal(row["BilledCost"]) for row in table)
    assert billed == Decimal(2 * sign * made.totals.due_cents) / 100
    for row in table:
        assert tuple(row) == FOCUS_COLUMNS
        assert "E" not in row["ListCost"] and row["ListCost"] == row["ContractedCost"]
        priced = bool(row["ListUnitPrice"])
        assert priced == (row["ChargeCategory"] not in ("Credit", "Tax"))
        assert all(value.isascii() for value in row.values())
        if priced:
            product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
            assert product == Decimal(row["ListCost"])
            cents = Decimal(row["BilledCost"]) * 100
            assert abs(cents - Decimal(row["EffectiveCost"]) * 100) < 1


def test_focus_names_the_invoice_the_buyer_and_the_month() -> None:
    late = line(2, service_start=line().service_start.replace(month=10))
    (first, second, tax) = read(focus_csv([document([line(), late])]))
    assert first["InvoiceId"] == "SLU-2026-000001"
    assert first["ProviderName"] == first["InvoiceIssuerName"] == "Sluice Inference GmbH"
    assert (first["BillingPeriodStart"], first["BillingPeriodEnd"]) == (
        "2026-11-01T00:00:00Z",
        "2026-12-01T00:00:00Z",
    )
    assert (first["PricingQuantity"], first["PricingUnit"]) == ("1.234567", "1000000 Tokens")
    assert (first["ConsumedQuantity"], first["ConsumedUnit"]) == ("1234567.0", "Tokens")
    assert (first["ListUnitPrice"], first["ListCost"]) == ("0.6", "0.7407402")
    assert (first["ChargeClass"], second["ChargeClass"]) == ("", "Correction")
    assert (tax["ChargeCategory"], tax["PricingQuantity"]) == ("Tax", "")
    receipt = document(kind=DocumentKind.RECEIPT)
    assert read(focus_csv([receipt])) == []


def test_focus_tells_usage_from_what_nobody_consumed_and_writes_ascii() -> None:
    minimum = line(2, kind="minimum")
    topped = line(3, kind="top_up")
    made = document([line(1), minimum, topped], buyer=replace(GERMAN, name="Münchner 你 AG"))
    (first, second, third, _) = read(focus_csv([made]))
    assert first["BillingAccountName"] == "Munchner ? AG"
    assert (first["ChargeCategory"], second["ChargeCategory"]) == ("Usage", "Adjustment")
    assert (third["ChargeCategory"], third["EffectiveCost"]) == ("Purchase", "0.00")
    assert first["ConsumedQuantity"] and not second["ConsumedQuantity"]


@pytest.mark.parametrize(
    ("quantity", "price", "amount", "unit"),
    [
        (1_234_567, 600_000_000, 740_740_200, Measure.TOKEN),
        (1_234_567, 600_000_000, 740_740_777, Measure.TOKEN),
        (3, 10**15, 1_234, Measure.PIECE),
        (-3, 10**15, -1_234, Measure.PIECE),
        (0, 0, 0, Measure.TOKEN),
    ],
)
def test_line_whose_price_times_quantity_is_another_amount_is_one_piece(
    quantity: int, price: int, amount: int, unit: Measure
) -> None:
    priced = line(quantity=quantity, unit_price_nanousd=price, amount_nanousd=amount).as_priced()
    assert priced.unit is unit
    if unit is Measure.PIECE:
        assert priced.quantity * priced.unit_price_nanousd == amount


def test_json_says_all_and_the_same_document_gives_the_same_bytes() -> None:
    made = document([line(1), line(2, tax=EXEMPT)], language="de", notes=("a", "b"))
    answer = json.loads(json_of(made))
    assert json_of(document([line(2, tax=EXEMPT), line(1)], language="de", notes=("a", "b"))) == (
        json_of(made)
    )
    assert answer["buyer"]["name"] == GERMAN.name and answer["notes"] == ["a", "b"]
    first = answer["lines"][0]
    assert first["unit_price_usd_per_million"] == "0.60"
    assert nanousd(first["amount_usd"]) == first["amount_nanousd"] == 740_740_200
    cents = [entry["amount_cents"] for entry in answer["lines"]]
    assert sum(cents) == whole_cents(2 * 740_740_200) == 148
    assert answer["total_cents"] == 148 + 14
    assert {tax["category"] for tax in answer["taxes"]} == {"S", "E"}
