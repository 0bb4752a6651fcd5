"""Documents as FOCUS 1.2: one row for each line, discount, tax and payment on account.

BilledCost of an invoice sums to what is due by it: a discount and paid credit are rows of category
Credit. A row with a price has ListCost and ContractedCost that are exactly price times quantity. A
credit note has rows below zero. Every number is a decimal: it has a point. Source: FOCUS 1.2 of the
FinOps Foundation.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from billing.documents.document import Document, DocumentKind, DocumentLine, Measure
from billing.documents.forms.amounts import cents_text, exact_usd, plain
from billing.documents.forms.csv_table import Number, csv_bytes
from billing.money import NANOUSD_PER_USD

FOCUS_VERSION = "1.2"
COLUMNS = (
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
)
SERVICE = "LLM inference"
CATEGORIES = {
    **dict.fromkeys(("minimum", "tiers", "allowance", "discount"), "Adjustment"),
    "top_up": "Purchase",
}
"""Of kinds of lines that nobody consumed. A top-up pays for charges to come: it has no cost yet."""
UNITS = {
    Measure.TOKEN: "Tokens",
    Measure.CALL: "Requests",
    Measure.MILLISECOND: "Milliseconds",
    Measure.SEARCH_UNIT: "Search Units",
    Measure.IMAGE: "Images",
    Measure.SECOND: "Seconds",
    Measure.CHARACTER: "Characters",
    Measure.PIECE: "Units",
}


def focus_csv(documents: Iterable[Document]) -> bytes:
    return csv_bytes(COLUMNS, (row for document in documents for row in focus_rows(document)))


def focus_rows(document: Document) -> Iterator[dict[str, Any]]:
    """Rows of invoices and credit notes; none of another kind, which bills nothing. Text is ASCII,
    as FOCUS asks for: a letter without its accent, or `?`."""
    for row in _rows(document):
        yield {name: _ascii(value) for name, value in row.items()}


def _ascii(value: Any) -> Any:
    if not isinstance(value, str) or value.isascii():
        return value
    folded = unicodedata.normalize("NFKD", value)
    bare = "".join(each for each in folded if not unicodedata.combining(each))
    return bare.encode("ascii", "replace").decode()


def _rows(document: Document) -> Iterator[dict[str, Any]]:
    heading = document.heading
    if heading.kind not in (DocumentKind.INVOICE, DocumentKind.CREDIT_NOTE):
        return
    is_credit_note = heading.kind is DocumentKind.CREDIT_NOTE
    sign = -1 if is_credit_note else 1
    common = _common(document)
    if is_credit_note:
        common["ChargeClass"] = "Correction"
    for line in document.lines:
        yield common | _of_line(document, line.as_priced(), line, sign)
    for each in document.reductions:
        yield common | _unpriced("Credit", each.description, -sign * each.amount_cents)
    for tax in document.taxes:
        for share in tax.shares:
            if share.tax_cents:
                name = f"Tax {tax.treatment.category} {Decimal(share.rate_ppm) / 10_000:f} %"
                name += f", {share.jurisdiction}" if share.jurisdiction else ""
                yield common | _unpriced("Tax", name, sign * share.tax_cents)
    for paid in document.prepayments:
        row = _unpriced("Credit", paid.description, -sign * paid.amount_cents)
        yield common | row | {"EffectiveCost": Number("0.00")}


def _common(document: Document) -> dict[str, Any]:
    heading = document.heading
    start, end = heading.period_start, heading.period_end
    return {
        "BillingAccountId": heading.organization,
        "BillingAccountName": heading.buyer.name,
        "BillingAccountType": "Organization",
        "BillingCurrency": heading.currency,
        "BillingPeriodStart": _instant(start.replace(day=1)),
        "BillingPeriodEnd": _instant(_month_after(start)),
        "ChargePeriodStart": _instant(start),
        "ChargePeriodEnd": _instant(end + timedelta(days=1)),
        "InvoiceId": heading.number or None,
        "InvoiceIssuerName": heading.seller.name,
        "ProviderName": heading.seller.name,
        "PublisherName": heading.seller.name,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": SERVICE,
    }


def _of_line(
    document: Document, priced: DocumentLine, line: DocumentLine, sign: int
) -> dict[str, Any]:
    category = CATEGORIES.get(line.kind, "Usage")
    is_usage = category == "Usage"
    cost = _decimal(sign * exact_usd(priced))
    price = _decimal(Decimal(priced.unit_price_nanousd) / NANOUSD_PER_USD)
    unit = UNITS[priced.unit]
    row: dict[str, Any] = {
        "BilledCost": Number(cents_text(sign * line.amount_cents)),
        "EffectiveCost": _decimal(Decimal(sign * line.amount_nanousd) / NANOUSD_PER_USD),
        "ListCost": cost,
        "ContractedCost": cost,
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        "PricingCategory": "Standard",
        "PricingQuantity": _decimal(Decimal(sign * priced.quantity) / priced.base_quantity),
        "PricingUnit": unit if priced.base_quantity == 1 else f"{priced.base_quantity} {unit}",
        "ChargeCategory": category,
        "ChargeFrequency": "Usage-Based" if is_usage else "One-Time",
        "ChargeDescription": line.description,
        "ChargePeriodStart": _instant(line.service_start),
        "ChargePeriodEnd": _instant(line.service_end + timedelta(days=1)),
        "SkuId": _sku(line),
        "SkuMeter": line.component or line.kind,
        "SkuPriceDetails": _price_details(line),
        "SkuPriceId": f"{_sku(line)}@{line.price_version or price}",
        "SubAccountId": line.project or None,
        "SubAccountName": line.project or None,
        "SubAccountType": "Project" if line.project else None,
    }
    if category == "Purchase":
        row["EffectiveCost"] = Number("0.00")
    if line.service_start < document.heading.period_start:
        row["ChargeClass"] = "Correction"
    if is_usage:
        row["ConsumedQuantity"] = _decimal(Decimal(sign * priced.quantity))
        row["ConsumedUnit"] = unit
    return row


def _unpriced(category: str, description: str, cents: int) -> dict[str, Any]:
    cost = Number(cents_text(cents))
    return {
        "BilledCost": cost,
        "EffectiveCost": cost,
        "ListCost": cost,
        "ContractedCost": cost,
        "ChargeCategory": category,
        "ChargeFrequency": "One-Time",
        "ChargeDescription": description,
    }


def _decimal(value: Decimal) -> Number:
    """An integer gets a point: its type must not depend on the numbers beside it."""
    text = plain(value)
    return Number(text if "." in text else f"{text}.0")


def _price_details(line: DocumentLine) -> str:
    """What a price holds for: of FOCUS's own properties none is of tokens."""
    details: dict[str, str | bool] = {"x_Meter": line.component or line.kind}
    if line.model:
        details |= {"x_Model": line.model, "x_ServiceTier": line.service_tier}
        details["x_IsBatch"] = line.batch
    return json.dumps(details)


def _sku(line: DocumentLine) -> str:
    parts = [line.model, line.service_tier, "batch" if line.batch else "", line.component]
    return "/".join(part for part in parts if part) or line.kind


def _month_after(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1)


def _instant(day: date) -> str:
    return f"{day.isoformat()}T00:00:00Z"
