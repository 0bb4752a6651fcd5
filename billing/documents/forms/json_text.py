"""A document as JSON: all that it says, amounts as exact decimal strings beside their integers.

The same document gives the same bytes.
"""

from __future__ import annotations

from datetime import date
from typing import Any

import msgspec

from billing.documents.document import (
    Annex,
    Document,
    DocumentLine,
    DocumentParty,
    DocumentTax,
    Heading,
    StatedTax,
)
from billing.documents.forms.amounts import cents_text, percent, unit_price_usd
from billing.money import usd

PRICED_UNITS = 1_000_000


def json_of(document: Document) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value_of(document)), indent=2) + b"\n"


def value_of(document: Document) -> dict[str, Any]:
    totals = document.totals
    return {
        "object": "invoice_document",
        **_of_heading(document.heading),
        "lines": [_of_line(line) for line in document.lines],
        "discounts": [
            {
                "seq": each.seq,
                "kind": each.kind,
                "description": each.description,
                "amount_usd": usd(each.amount_nanousd),
                "amount_nanousd": each.amount_nanousd,
                "amount_cents": each.amount_cents,
                "tax_category": each.tax.category.value,
                "tax_rate": percent(each.tax.rate_ppm),
            }
            for each in document.reductions
        ],
        "payments_on_account": [
            {
                "description": each.description,
                "amount_usd": usd(each.amount_nanousd),
                "amount_nanousd": each.amount_nanousd,
                "amount_cents": each.amount_cents,
            }
            for each in document.prepayments
        ],
        "taxes": [_of_tax(tax, share) for tax in document.taxes for share in tax.shares],
        "subtotal_usd": cents_text(totals.lines_cents),
        "discount_usd": cents_text(totals.reductions_cents),
        "net_usd": cents_text(totals.net_cents),
        "tax_usd": cents_text(totals.tax_cents),
        "total_usd": cents_text(totals.total_cents),
        "paid_usd": cents_text(totals.paid_cents),
        "due_usd": cents_text(totals.due_cents),
        "total_cents": totals.total_cents,
        "due_cents": totals.due_cents,
        "converted": _of_conversion(document),
        "annexes": [_of_annex(annex) for annex in document.annexes],
    }


def _of_heading(heading: Heading) -> dict[str, Any]:
    preceding = heading.preceding
    return {
        "id": heading.document_id,
        "kind": heading.kind.value,
        "number": heading.number or None,
        "draft": heading.is_draft,
        "issued": _day(heading.issued),
        "due": _day(heading.due),
        "period": {"start": _day(heading.period_start), "end": _day(heading.period_end)},
        "currency": heading.currency,
        "language": heading.language,
        "organization": heading.organization,
        "seller": _of_party(heading.seller),
        "buyer": _of_party(heading.buyer),
        "buyer_reference": heading.buyer_reference,
        "purchase_order": heading.purchase_order,
        "terms": heading.terms,
        "preceding": preceding
        and {"number": preceding.number, "issued": preceding.issued.isoformat()},
        "reason": heading.reason,
        "notes": list(heading.notes),
    }


def _of_party(party: DocumentParty) -> dict[str, Any]:
    address = party.address
    return {
        "name": party.name,
        "address": {
            "lines": list(address.lines),
            "city": address.city,
            "postal_code": address.postal_code,
            "region": address.region,
            "country": address.country,
        },
        "vat_id": party.vat_id,
        "tax_id": party.tax_id,
        "email": party.email,
        "phone": party.phone,
        "electronic_address": party.electronic_address,
        "iban": party.iban,
    }


def _of_line(line: DocumentLine) -> dict[str, Any]:
    per_million = PRICED_UNITS * line.unit_price_nanousd
    return {
        "seq": line.seq,
        "kind": line.kind,
        "description": line.description,
        "project": line.project,
        "model": line.model,
        "service_tier": line.service_tier,
        "batch": line.batch,
        "component": line.component,
        "price_version": line.price_version,
        "quantity": line.quantity,
        "unit": line.unit.value,
        "unit_price_usd": unit_price_usd(line),
        "base_quantity": line.base_quantity,
        "unit_price_usd_per_million": usd(per_million // line.base_quantity),
        "amount_usd": usd(line.amount_nanousd),
        "amount_nanousd": line.amount_nanousd,
        "amount_cents": line.amount_cents,
        "tax_category": line.tax.category.value,
        "tax_rate": percent(line.tax.rate_ppm),
        "service_period": {"start": _day(line.service_start), "end": _day(line.service_end)},
    }


def _of_tax(tax: DocumentTax, share: StatedTax) -> dict[str, Any]:
    treatment = tax.treatment
    return {
        "category": treatment.category.value,
        "jurisdiction": share.jurisdiction or None,
        "rate": percent(share.rate_ppm),
        "base_cents": tax.base_cents,
        "tax_cents": share.tax_cents,
        "reason_code": treatment.reason_code or None,
        "note": treatment.note or None,
    }


def _of_conversion(document: Document) -> dict[str, Any] | None:
    converted = document.converted
    if converted is None:
        return None
    rate = converted.conversion
    return {
        "currency": rate.currency,
        "rate": usd(rate.nano_per_usd),
        "day": _day(rate.day),
        "source": rate.source,
        "tax": cents_text(converted.tax_cents),
        "total": cents_text(converted.total_cents),
        "due": cents_text(converted.due_cents),
    }


def _of_annex(annex: Annex) -> dict[str, Any]:
    return {
        "by": annex.by,
        "rows": [
            {
                "name": row.name,
                "calls": row.calls,
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "amount_usd": usd(row.amount_nanousd),
                "amount_nanousd": row.amount_nanousd,
            }
            for row in annex.rows
        ],
    }


def _day(day: date | None) -> str | None:
    return day.isoformat() if day else None
