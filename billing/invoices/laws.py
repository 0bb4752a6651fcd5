"""Laws of invoices: lines add up to the nano-dollar, terms are booked, numbers have no gap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from billing.cents import tax_of
from billing.invoices import agreed
from billing.invoices import store as rows
from billing.invoices.issuing import UNDONE
from billing.ledger import audit
from billing.ledger.posting import unbilled
from billing.ledger.report import Check, judged
from billing.money import NANOUSD_PER_CENT

Row = dict[str, Any]


def lines_add_up(conn: Connection) -> Check:
    invoices = audit.invoice_sums(conn)
    return judged(
        "I5 invoice_totals",
        "invoice lines sum to the subtotal and, with the rounding, to whole cents",
        (problem for invoice in invoices if (problem := _wrong(invoice))),
        len(invoices),
    )


def taxes_add_up(conn: Connection) -> Check:
    taxes = audit.invoice_taxes(conn)
    by_tax: dict[tuple[str, int], list[Row]] = {}
    for share in audit.invoice_tax_shares(conn):
        by_tax.setdefault((share["invoice_id"], share["place"]), []).append(share)
    shared = [(tax, by_tax.get((tax["invoice_id"], tax["place"]), [])) for tax in taxes]
    return judged(
        "I5 invoice_taxes",
        "each tax of an invoice is its rate of its lines, and the ledger has it",
        (problem for tax, shares in shared if (problem := _wrong_tax(tax, shares))),
        len(taxes),
    )


def numbers_have_no_gap(conn: Connection) -> Check:
    numbers: dict[str, list[int]] = {}
    for invoice in audit.invoice_sums(conn):
        if invoice["number"] is not None:
            numbers.setdefault(invoice["series"], []).append(invoice["number"])
    for series, number in audit.numbers_of_others(conn):
        numbers.setdefault(series, []).append(number)
    breaks = [
        f"series {series} has {sequence}"
        for series, sequence in numbers.items()
        if not _gapless(sequence)
    ]
    return judged(
        "I10 invoice_numbers",
        "the numbers of a series run from 1 without a gap",
        breaks,
        sum(map(len, numbers.values())),
    )


def terms_are_booked(conn: Connection) -> Check:
    """Compare the lines of terms of numbered invoices with the transfers of these kinds."""
    of_lines = {agreed.transfer_id(row["invoice_id"], row): row for row in audit.term_lines(conn)}
    undone = {
        f"{name}{UNDONE}": row | {"amount_nanousd": -row["amount_nanousd"]}
        for name, row in of_lines.items()
        if row["voided_us"] is not None
    }
    of_lines |= undone
    booked = audit.of_kinds(conn, (*rows.OF_TERMS, "invoice_void"))
    of_transfers = {
        row["transfer_id"]: row
        for row in booked
        if row["kind"] in rows.OF_TERMS or row["transfer_id"] in undone
    }
    return judged(
        "I5 invoice_terms",
        "every line of terms of a numbered invoice has its transfer, and a void one what undoes it",
        (
            f"{name}: {problem}"
            for name in sorted({*of_lines, *of_transfers})
            if (problem := _unlike(of_lines.get(name), of_transfers.get(name)))
        ),
        len(of_lines),
    )


def _unlike(line: dict[str, Any] | None, booked: dict[str, Any] | None) -> str | None:
    if line is None or booked is None:
        return "there is no such line" if line is None else "it is not booked"
    is_charged = booked["debit_account"] == unbilled(line["org"])
    moved = booked["amount_nanousd"] if is_charged else -booked["amount_nanousd"]
    if moved != line["amount_nanousd"]:
        return f"the line has {line['amount_nanousd']}, booked {moved}"
    return None


def _wrong(invoice: dict[str, Any]) -> str | None:
    total = invoice["total_cents"] * NANOUSD_PER_CENT
    if (invoice["lines"] or 0) != total:
        return f"{invoice['invoice_id']}: lines {invoice['lines']}, total {total}"
    if (invoice["billed"] or 0) != invoice["subtotal_nanousd"]:
        return (
            f"{invoice['invoice_id']}: lines before rounding {invoice['billed']}, subtotal "
            f"{invoice['subtotal_nanousd']}"
        )
    return None


def _wrong_tax(tax: Row, shares: Sequence[Row]) -> str | None:
    """Cents are shared among the lines of an invoice, so a base is less than a cent off. What
    jurisdictions share is rounded and booked for each of them."""
    name = f"{tax['invoice_id']} tax {tax['place']}"
    base, due = tax["base_cents"], tax["tax_cents"]
    if abs(base * NANOUSD_PER_CENT - (tax["taxed"] or 0)) >= NANOUSD_PER_CENT:
        return f"{name}: lines {tax['taxed'] or 0}, base {base}"
    if shares:
        sums = sum(each["tax_cents"] for each in shares), sum(each["rate_ppm"] for each in shares)
        if sums != (due, tax["rate_ppm"]):
            return f"{name}: its shares have {sums[0]} at {sums[1]} ppm, the tax is {due}"
    for part in shares or [tax]:
        owed = part["tax_cents"]
        if owed != tax_of(base, part["rate_ppm"]):
            return f"{name}: {owed} of {base} at {part['rate_ppm']} ppm"
        if part["booked"] != owed * NANOUSD_PER_CENT:
            return f"{name}: booked {part['booked']}, due {owed}"
    if tax["of_invoice"] != tax["of_taxes"]:
        return f"{name}: its invoice says {tax['of_invoice']}, taxes sum to {tax['of_taxes']}"
    return None


def _gapless(numbers: Sequence[int]) -> bool:
    return sorted(numbers) == list(range(1, len(numbers) + 1))
