"""FOCUS of every case of the e-invoices: by rules of our own, and by the validator of the FinOps
Foundation, which has an environment of its own (`make focus`)."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.documents.document import Document, DocumentKind
from billing.documents.forms.focus import COLUMNS, focus_csv
from tests.billing.documents.cases import CASES

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-focus" / "bin" / "python"
BILLED = {name: focus_csv([document]) for name, document in CASES.items()}
DECIMALS = (
    *("BilledCost", "EffectiveCost", "ListCost", "ContractedCost"),
    *("ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "ConsumedQuantity"),
)
NEVER_NULL = (
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency"),
    *("BillingPeriodStart", "BillingPeriodEnd", "ChargeCategory", "ChargePeriodStart"),
    *("ChargePeriodEnd", "ContractedCost", "EffectiveCost", "InvoiceId", "InvoiceIssuerName"),
    *("ListCost", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
)
APPLICABLE = (
    *("ACCOUNT_NAMING_SUPPORTED", "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED"),
    *("MULTIPLE_PRICING_CATEGORIES_SUPPORTED", "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED"),
    *("NEGOTIATED_PRICING_SUPPORTED", "PUBLIC_PRICE_LIST_SUPPORTED", "SUB_ACCOUNT_SUPPORTED"),
    *("UNIT_PRICING_SUPPORTED", "USAGE_MEASUREMENT_SUPPORTED"),
)
"""What Sluice has of that by which rules apply: it sells no regions, resources, reservations or
tags, and prices in the currency in which it bills."""


def read(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode(), newline="")))


LISTED = {"InvoiceId-C-004-C": "FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec#2394"}
"""A rule that fails though it holds, and where that is told: what must be null has lost its
condition."""
NOT_OURS = "CommitmentDiscountStatus"
"""The validator's rules of ConsumedQuantity fail where this column is not there, which FOCUS asks
only those for who have such discounts: it gets the file with an empty one."""
OF_OTHER_CURRENCIES = "PricingCurrency"
"""The validator asks for these columns where one of two criteria holds; the rules say both."""


@pytest.mark.parametrize("name", CASES)
def test_rows_have_what_focus_asks_for_and_bill_what_is_due(name: str) -> None:
    made, rows = CASES[name], read(BILLED[name])
    assert rows
    check(rows)
    assert sum(Decimal(row["BilledCost"]) for row in rows) * 100 == due_cents(made)


@pytest.mark.parametrize("wrong", [{"ListCost": "99.99"}, {"ChargeCategory": "Usages"}])
def test_cost_that_is_not_price_times_quantity_and_an_unknown_category_are_refused_here(
    wrong: dict[str, str],
) -> None:
    """The validator takes both."""
    (row, *others) = read(BILLED["domestic"])
    with pytest.raises(AssertionError):
        check([row | wrong, *others])


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(not PYTHON.exists(), reason="no validator of FOCUS: it wants a Python 3.12")
def test_validator_of_the_foundation_refuses_no_case(tmp_path: Path) -> None:
    wrong = BILLED["domestic"].replace(b"Sluice Inference GmbH", b"")
    for name, content in {**BILLED, "wrong": wrong}.items():
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, [*COLUMNS, NOT_OURS])
            writer.writeheader()
            writer.writerows(read(content))
    *judged, refused = validated([tmp_path / f"{name}.csv" for name in (*BILLED, "wrong")])
    for name, each in zip(BILLED, judged, strict=True):
        assert each["rows"] == len(read(BILLED[name]))
        assert failing(each) == LISTED.keys(), name
    assert "InvoiceIssuerName-C-003-M" in failing(refused)
    outcomes = Counter(outcome for each in judged for outcome in each["outcomes"].values())
    rows = sum(each["rows"] for each in judged)
    print(f"{len(judged)} cases, {rows} rows, rules: {dict(outcomes)}")
    assert outcomes["holds"] > 200 * len(judged)


def check(rows: Iterable[Mapping[str, str]]) -> None:
    """Costs are price times quantity, and nothing is missing or an integer."""
    for row in rows:
        assert all(row[column] for column in NEVER_NULL)
        assert row["ChargeCategory"] in ("Usage", "Purchase", "Adjustment", "Credit", "Tax")
        assert all("." in row[column] for column in DECIMALS if row[column])
        assert bool(row["ListUnitPrice"]) == (row["ChargeCategory"] not in ("Credit", "Tax"))
        assert bool(row["SkuPriceDetails"]) == bool(row["SkuPriceId"])
        if row["ListUnitPrice"]:
            for kind in ("List", "Contracted"):
                product = Decimal(row[f"{kind}UnitPrice"]) * Decimal(row["PricingQuantity"])
                assert product == Decimal(row[f"{kind}Cost"])
            assert json.loads(row["SkuPriceDetails"])["x_Meter"]


def validated(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """It reads files of its own from beside its package."""
    command = [PYTHON, Path(__file__).with_name("focus_judge.py"), ",".join(APPLICABLE), *paths]
    (packages,) = PYTHON.parents[1].glob("lib/python3.*/site-packages")
    done = subprocess.run(command, cwd=packages, capture_output=True, timeout=800, check=True)
    judged: list[dict[str, Any]] = json.loads(done.stdout)
    return judged


def failing(judged: Mapping[str, Any]) -> set[str]:
    return {
        rule
        for rule, outcome in judged["outcomes"].items()
        if outcome == "fails"
        and not rule.startswith(OF_OTHER_CURRENCIES)
        and not judged["text"].get(rule, "").startswith(OF_OTHER_CURRENCIES)
    }


def due_cents(made: Document) -> int:
    is_note = made.heading.kind is DocumentKind.CREDIT_NOTE
    return -made.totals.due_cents if is_note else made.totals.due_cents
