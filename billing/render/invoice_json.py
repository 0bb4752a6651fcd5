"""An invoice as JSON, for people and their programs; amounts are decimal strings in USD."""

from __future__ import annotations

from typing import Any

from billing.invoices import InvoiceResult
from billing.money import NANOUSD_PER_CENT, usd


def invoice_json(result: InvoiceResult) -> dict[str, Any]:
    """The whole invoice with its lines."""
    invoice = result.invoice
    return {
        "id": invoice["invoice_id"],
        "organization": invoice["org"],
        "period": invoice["period"],
        "status": invoice["status"],
        "draft_because": list(result.draft_because),
        "number": number_of(invoice),
        "currency": invoice["currency"],
        "period_start_us": invoice["period_start_us"],
        "period_end_us": invoice["period_end_us"],
        "subtotal_usd": usd(invoice["subtotal_nanousd"]),
        "rounding_usd": usd(invoice["rounding_nanousd"]),
        "total_usd": usd(invoice["total_cents"] * NANOUSD_PER_CENT),
        "total_cents": invoice["total_cents"],
        "computed_us": invoice["computed_us"],
        "lines": [_line_json(line) for line in result.lines],
    }


def _line_json(line: dict[str, Any]) -> dict[str, Any]:
    return {
        "seq": line["seq"],
        "kind": line["kind"],
        "project": line["project"],
        "model": line["model"],
        "service_tier": line["tier"],
        "batch": bool(line["batch"]),
        "component": line["component"],
        "price_version": line["price_version"],
        "grant": line["grant_id"],
        "quantity": line["quantity"],
        "unit_price_usd_per_million": usd(line["unit_price_nanousd_per_mtok"]),
        "amount_usd": usd(line["amount_nanousd"]),
        "amount_nanousd": line["amount_nanousd"],
        "service_start_us": line["service_start_us"],
        "service_end_us": line["service_end_us"],
        "transfers": line["transfers"],
    }


def number_of(invoice: dict[str, Any]) -> str | None:
    """`SLU-2026-000001`; a draft has none."""
    return f"{invoice['series']}-{invoice['number']:06d}" if invoice["number"] else None
