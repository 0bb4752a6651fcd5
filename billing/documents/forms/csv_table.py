"""A document as CSV: one row for each line, discount and tax; `amount_cents` sums to the total.

A payment on account is a row too. It has no amount, for it changes no total: what it takes off what
is due stands in `paid_cents`. No cell of text can be read as a formula by a spreadsheet.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

from billing.documents.document import Document, DocumentLine, TaxTreatment
from billing.documents.forms.amounts import cents_text, percent, unit_price_usd
from billing.money import usd

COLUMNS = (
    "number",
    "organization",
    "currency",
    "seq",
    "kind",
    "description",
    "project",
    "model",
    "service_tier",
    "batch",
    "component",
    "price_version",
    "service_start",
    "service_end",
    "quantity",
    "unit",
    "unit_price_usd",
    "base_quantity",
    "amount_nanousd",
    "amount_usd",
    "amount_cents",
    "tax_category",
    "tax_percent",
    "tax_reason",
    "paid_cents",
)
FORMULA_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20|%")
"""What makes a spreadsheet read a cell as a formula, wide forms included."""


class Number(str):
    """Text that is a number: its minus begins no formula."""


def csv_of(document: Document) -> bytes:
    """UTF-8 with a header; lines end as RFC 4180 has it."""
    return csv_bytes(COLUMNS, rows_of(document))


def csv_bytes(
    columns: Iterable[str], rows: Iterable[dict[str, Any]], *, header: bool = True
) -> bytes:
    """Rows by column; a column that a row lacks is empty. Text is made safe, numbers stay."""
    names = tuple(columns)
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    if header:
        writer.writerow(names)
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue().encode("utf-8", "replace")


def cell(value: object) -> object:
    """The value as a cell. Text that would begin a formula gets an apostrophe before it."""
    if not isinstance(value, str) or isinstance(value, Number):
        return "" if value is None else value
    text = value.replace("\0", "")
    return f"'{text}" if text.lstrip(" \u00a0\ufeff")[:1] in FORMULA_STARTS and text else text


def rows_of(document: Document) -> Iterator[dict[str, Any]]:
    """In order: lines, discounts, taxes, payments on account."""
    heading = document.heading
    common = {
        "number": heading.number,
        "organization": heading.organization,
        "currency": heading.currency,
    }
    for line in document.lines:
        yield common | _of_line(line) | _of_tax(line.tax)
    for each in document.reductions:
        amount = _of_amount(-each.amount_nanousd, -each.amount_cents)
        named = {"seq": each.seq, "kind": each.kind, "description": each.description}
        yield common | named | amount | _of_tax(each.tax)
    for tax in document.taxes:
        for share in tax.shares:
            named = {"kind": "tax", "description": share.jurisdiction or "tax"}
            cents = share.tax_cents
            amount = {"amount_usd": Number(cents_text(cents)), "amount_cents": cents}
            rate = _of_tax(tax.treatment) | {"tax_percent": percent(share.rate_ppm)}
            yield common | named | amount | rate
    for paid in document.prepayments:
        named = {"kind": "payment", "description": paid.description}
        yield common | named | {"paid_cents": paid.amount_cents}


def _of_line(line: DocumentLine) -> dict[str, Any]:
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
        "service_start": line.service_start.isoformat(),
        "service_end": line.service_end.isoformat(),
        "quantity": line.quantity,
        "unit": line.unit.value,
        "unit_price_usd": unit_price_usd(line),
        "base_quantity": line.base_quantity,
        **_of_amount(line.amount_nanousd, line.amount_cents),
    }


def _of_amount(nanousd: int, cents: int) -> dict[str, Any]:
    return {
        "amount_nanousd": nanousd,
        "amount_usd": Number(usd(nanousd)),
        "amount_cents": cents,
    }


def _of_tax(treatment: TaxTreatment) -> dict[str, Any]:
    return {
        "tax_category": treatment.category.value,
        "tax_percent": percent(treatment.rate_ppm),
        "tax_reason": treatment.reason_code or treatment.note,
    }
