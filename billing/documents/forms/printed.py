"""What stands on the pages of a document: strings in places, for `page.typ` to set.

Pure. The first page has the parties, a summary, a chart of spend by day, totals and taxes. Annexes
follow: every line where the first page had no room for them, then usage by project, key and day.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Set
from datetime import date, timedelta
from typing import Any

from billing.documents.document import (
    Annex,
    Document,
    DocumentAddress,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    DocumentTax,
    Measure,
    StatedTax,
    TaxCategory,
)
from billing.documents.forms.amounts import percent, unit_price_usd
from billing.documents.forms.countries import country_name
from billing.documents.forms.glyphs import MISSING, printable, with_glyphs
from billing.documents.forms.words import (
    day_text,
    grouped,
    money,
    printed_language,
    title,
    whole,
    words_of,
)
from billing.money import usd, whole_cents

LINES_ON_FIRST_PAGE = 8
PROJECTS_ON_FIRST_PAGE = 8
NAME_MAX = 160
"""Characters of a text on a page; the data has it in full."""
PARTY_NAME_MAX = 120
PARTY_LINE_MAX = 60
"""Of what stands in the narrow columns of the parties."""
CITY_FIRST = frozenset({"US", "CA", "AU"})
"""Countries whose addresses have the postal code last."""
HAN_OF = {
    **{"CN": "zh-CN", "SG": "zh-CN", "TW": "zh-TW", "HK": "zh-HK", "MO": "zh-HK"},
    **{"JP": "ja", "KR": "ko"},
}
"""How the letters of Chinese look that a name from these countries has."""
IBAN_GROUP = 4
LINE_WIDTHS_CM = [0, 3.3, 3, 1.5, 2.3]
ANNEX_WIDTHS_CM = [0, 2, 2.8, 2.8, 3.6]
CHART_DAYS_MAX = 62
PER_MILLE = 1_000
DASH = "\u2013"
DOT = " · "
KEPT_DOT = "\u00a0· "
"""No line of a page begins with it."""
XML_NAME = "factur-x.xml"
DUE_LABELS = {DocumentKind.CREDIT_NOTE: "credited", DocumentKind.RECEIPT: "received"}
Page = dict[str, Any]
Words = Mapping[str, str]


def page_of(document: Document, xml: bytes | None) -> Page:
    """The page as data; `xml` is the e-invoice to embed, if there is one."""
    heading, language = document.heading, document.heading.language
    words = words_of(language)
    name = title(heading.kind, language)
    day = heading.issued or heading.period_end
    is_receipt = heading.kind is DocumentKind.RECEIPT
    due_cents = document.totals.paid_cents if is_receipt else document.totals.due_cents
    subtitle = heading.number or words["draft"]
    return {
        "language": printed_language(language),
        "words": dict(words),
        "title": printable(f"{name} {subtitle}"),
        "heading": name,
        "subtitle": printable(subtitle),
        "day": [day.year, day.month, day.day],
        "draft": heading.is_draft,
        "foot": short(f"{heading.seller.name} · {name} {subtitle}"),
        "seller": party_lines(heading.seller, language),
        "buyer": party_lines(heading.buyer, language),
        "facts": _facts(document, words),
        "due_label": words[DUE_LABELS.get(heading.kind, "due")],
        "due": f"{money(due_cents, language)} {printable(heading.currency)}",
        "table": _table(document, words),
        "totals": _received(document, words) if is_receipt else _totals(document, words),
        "taxes": []
        if is_receipt
        else [_tax(tax, share, words, language) for tax in document.taxes for share in tax.shares],
        "payment": _payment(document, words),
        "notes": [printable(note) for note in (_reason(document, words), *heading.notes) if note],
        "chart": _chart(document, words),
        "annexes": ([] if _is_short(document) else [_lines(document, words)])
        + [_annex(annex, words, language) for annex in document.annexes if annex.rows],
        "xml": None if xml is None else xml.decode(),
        "xml_name": XML_NAME,
        "xml_about": f"{name} {printable(subtitle)}",
    }


def without_marks(value: Any) -> Any:
    """The same page with every combining mark left out."""
    if isinstance(value, str):
        return "".join(each for each in value if unicodedata.category(each)[0] != "M")
    if isinstance(value, dict):
        return {name: without_marks(part) for name, part in value.items()}
    return [without_marks(part) for part in value] if isinstance(value, list) else value


def short(text: str, most: int = NAME_MAX) -> str:
    return printable(text if len(text) <= most else text[: most - 1] + "…")


def party_lines(party: DocumentParty, language: str) -> Page:
    address, words = party.address, words_of(language)
    country = country_name(address.country, language)
    lines = [*address.lines, _place(address), country]
    lines += [f"{words['vat_id']}: {party.vat_id}"] if party.vat_id else []
    lines += [f"{words['tax_id']}: {party.tax_id}"] if party.tax_id else []
    lines += [party.email] if party.email else []
    own, _, region = HAN_OF.get(address.country, "").partition("-")
    return {
        "language": own or printed_language(language),
        "region": region or None,
        "name": short(party.name, PARTY_NAME_MAX),
        "lines": [short(line, PARTY_LINE_MAX) for line in lines if line],
    }


def _place(address: DocumentAddress) -> str:
    city, region, code = address.city, address.region, address.postal_code
    if address.country not in CITY_FIRST:
        return " ".join(each for each in (code, city, region) if each)
    return ", ".join(each for each in (city, f"{region} {code}".strip()) if each)


def account_line(iban: str, words: Words) -> str:
    """The IBAN in groups, as banks print it."""
    groups = [iban[at : at + IBAN_GROUP] for at in range(0, len(iban), IBAN_GROUP)]
    return printable(f"{words['account']}: {' '.join(groups)}")


def with_shown_characters(page: Page, covered: Set[int]) -> Page:
    """The page with a mark for each character that is not covered, and a note where it has one."""
    shown = {name: with_glyphs(part, covered) for name, part in page.items() if name != "xml"}
    if MISSING in json.dumps(shown, ensure_ascii=False):
        shown["notes"].append(page["words"]["missing"].format(mark=MISSING))
    return {**shown, "xml": page["xml"]}


def _reason(document: Document, words: Words) -> str:
    """Of a credit note. What a receipt has there is a note."""
    reason = document.heading.reason
    is_credit = document.heading.kind is DocumentKind.CREDIT_NOTE
    return f"{words['reason']}: {reason}" if is_credit and reason else reason


def _facts(document: Document, words: Words) -> list[list[str]]:
    heading, language = document.heading, document.heading.language
    before = heading.preceding
    is_credit = heading.kind is DocumentKind.CREDIT_NOTE
    is_receipt = heading.kind is DocumentKind.RECEIPT
    start, end = day_text(heading.period_start, language), day_text(heading.period_end, language)
    payments = ", ".join(each.description for each in document.prepayments)
    facts = [
        ("number", heading.number),
        ("issued", day_text(heading.issued, language)),
        ("due_by", "" if is_credit else day_text(heading.due, language)),
        ("period", "" if is_receipt else f"{start} {DASH} {end}"),
        ("received_on", start if is_receipt else ""),
        ("payment_name", payments if is_receipt else ""),
        ("reference", heading.buyer_reference),
        ("order", heading.purchase_order),
        ("preceding", f"{before.number}, {day_text(before.issued, language)}" if before else ""),
    ]
    return [[words[name], short(value)] for name, value in facts if value]


def _is_short(document: Document) -> bool:
    return len(document.lines) <= LINES_ON_FIRST_PAGE


def _table(document: Document, words: Words) -> Page:
    if document.heading.kind is DocumentKind.RECEIPT:
        return _untaxed_lines(document, words)
    return _lines(document, words) if _is_short(document) else _projects(document, words)


def _untaxed_lines(document: Document, words: Words) -> Page:
    language = document.heading.language
    return {
        "title": words["lines"],
        "head": [words["description"], words["amount"]],
        "columns": [0, 4],
        "rows": [
            [short(line.description), money(line.amount_cents, language)] for line in document.lines
        ],
    }


def _received(document: Document, words: Words) -> list[list[Any]]:
    """The totals of a receipt, which has no tax."""
    heading = document.heading
    return [
        [words["amount"], printable(heading.currency)],
        [words["total"], money(document.totals.total_cents, heading.language), True],
    ]


def _lines(document: Document, words: Words) -> Page:
    language = document.heading.language
    return {
        "title": words["lines"],
        "note": "",
        "head": [
            words["description"],
            words["quantity"],
            words["price"],
            words["rate"],
            words["amount"],
        ],
        "columns": LINE_WIDTHS_CM,
        "rows": [_line(line, document, words, language) for line in document.lines],
    }


def _line(line: DocumentLine, document: Document, words: Words, language: str) -> list[str]:
    parts = [line.description]
    if line.project:
        parts.append(f"{words['project']} {line.project}")
    heading = document.heading
    if (line.service_start, line.service_end) != (heading.period_start, heading.period_end):
        start, end = day_text(line.service_start, language), day_text(line.service_end, language)
        parts.append(f"{start} {DASH} {end}")
    price = grouped(unit_price_usd(line), language)
    if line.base_quantity != 1:
        price += f" {words['per']} {whole(line.base_quantity, language)}"
    quantity = whole(line.quantity, language)
    if line.unit is not Measure.PIECE:
        quantity += f" {words[line.unit.value]}"
    return [
        short(DOT.join(parts)).replace(DOT, KEPT_DOT),
        quantity,
        price,
        f"{grouped(percent(line.tax.rate_ppm), language)} %",
        money(line.amount_cents, language),
    ]


def _projects(document: Document, words: Words) -> Page:
    """The largest projects, and one row for all others; the cents sum to the subtotal."""
    language = document.heading.language
    sums: dict[str, int] = {}
    for line in document.lines:
        sums[line.project] = sums.get(line.project, 0) + line.amount_cents
    ranked = sorted(sums.items(), key=lambda entry: (-abs(entry[1]), entry[0]))
    first, others = ranked[:PROJECTS_ON_FIRST_PAGE], ranked[PROJECTS_ON_FIRST_PAGE:]
    rows = [
        [short(name) if name else words["no_project"], money(cents, language)]
        for name, cents in first
    ]
    if others:
        rest = sum(cents for _, cents in others)
        rows.append([words["others"].format(count=len(others)), money(rest, language)])
    return {
        "title": words["summary"],
        "head": [words["project"], words["amount"]],
        "columns": [0, 4],
        "rows": rows,
    }


def _totals(document: Document, words: Words) -> list[list[Any]]:
    """Label, amount, and whether it is a sum; the first row is the head of the table."""
    totals, language = document.totals, document.heading.language
    is_credit = document.heading.kind is DocumentKind.CREDIT_NOTE
    rows: list[list[Any]] = [[words["amount"], printable(document.heading.currency)]]
    if document.reductions:
        rows.append([words["subtotal"], money(totals.lines_cents, language), False])
    for each in document.reductions:
        rows.append([short(each.description), money(-each.amount_cents, language), False])
    rows += [
        [words["net_total"], money(totals.net_cents, language), bool(document.reductions)],
        [words["tax_total"], money(totals.tax_cents, language), False],
        [words["total"], money(totals.total_cents, language), True],
    ]
    for paid in document.prepayments:
        label = f"{words['paid']}: {paid.description}"
        rows.append([short(label), money(-paid.amount_cents, language), False])
    if document.prepayments:
        label = words["credited" if is_credit else "due"]
        rows.append([label, money(totals.due_cents, language), True])
    return rows


def _tax(tax: DocumentTax, share: StatedTax, words: Words, language: str) -> list[str]:
    treatment = tax.treatment
    reason = treatment.note or treatment.reason_code
    is_rated = treatment.category in (TaxCategory.STANDARD, TaxCategory.ZERO)
    label = words["tax_total"] if is_rated else reason
    if treatment.reason_code and treatment.note:
        label = f"{label} ({treatment.reason_code})"
    if share.jurisdiction:
        label = f"{label}, {share.jurisdiction}"
    return [
        short(label),
        f"{grouped(percent(share.rate_ppm), language)} %",
        money(tax.base_cents, language),
        money(share.tax_cents, language),
    ]


def _payment(document: Document, words: Words) -> list[str]:
    heading, language = document.heading, document.heading.language
    lines = []
    converted, is_receipt = document.converted, heading.kind is DocumentKind.RECEIPT
    if converted is not None:
        rate = converted.conversion
        label = words["in_currency"].format(
            currency=rate.currency,
            rate=grouped(usd(rate.nano_per_usd), language),
            source=rate.source,
            day=day_text(rate.day, language),
        )
        amounts = [("tax_total", converted.tax_cents), ("total", converted.total_cents)]
        if document.prepayments and heading.kind is DocumentKind.INVOICE:
            amounts.append(("due", converted.due_cents))
        totals = [f"{words[name]} {money(cents, language)}" for name, cents in amounts[is_receipt:]]
        lines.append(f"{label}: {', '.join(totals)}")
    if heading.terms and heading.kind is not DocumentKind.CREDIT_NOTE:
        lines.append(heading.terms)
    if heading.kind is DocumentKind.INVOICE and heading.seller.iban and heading.number:
        lines.append(account_line(heading.seller.iban, words))
        lines.append(words["remittance"].format(number=heading.number))
    return [printable(line) for line in lines]


def _chart(document: Document, words: Words) -> Page | None:
    """Bars in thousandths of the highest day. A day without usage has none."""
    language = document.heading.language
    by_day = next((annex for annex in document.annexes if annex.by == "day"), None)
    spend = {row.name: row.amount_nanousd for row in by_day.rows} if by_day else {}
    if not spend or max(spend.values()) <= 0:
        return None
    first, last = document.heading.period_start, document.heading.period_end
    days = [first + timedelta(days=n) for n in range(min((last - first).days + 1, CHART_DAYS_MAX))]
    high_day = max(spend, key=lambda day: (spend[day], day))
    high = f"{money(whole_cents(spend[high_day]), language)} USD"
    bars = [max(spend.get(day.isoformat(), 0), 0) * PER_MILLE // spend[high_day] for day in days]
    names = {"first": day_text(first, language), "last": day_text(days[-1], language)}
    return {
        "title": words["spend"],
        "alt": words["spend_alt"].format(
            high=high, day=day_text(date.fromisoformat(high_day), language), **names
        ),
        "high": high,
        "bars": bars,
        **names,
    }


def _annex(annex: Annex, words: Words, language: str) -> Page:
    return {
        "title": words[f"by_{annex.by}"],
        "note": words["annex_note"],
        "head": [
            words["day" if annex.by == "day" else "name"],
            words["calls"],
            words["input"],
            words["output"],
            f"{words['amount']} (USD)",
        ],
        "columns": ANNEX_WIDTHS_CM,
        "rows": [
            [
                _row_name(row.name, annex.by, language),
                whole(row.calls, language),
                whole(row.input_tokens, language),
                whole(row.output_tokens, language),
                _exact(row.amount_nanousd, language),
            ]
            for row in annex.rows
        ],
    }


def _exact(amount_nanousd: int, language: str) -> str:
    """With all nine decimals, so that the points of a column stand below each other."""
    whole_usd, _, decimals = usd(amount_nanousd).partition(".")
    return grouped(f"{whole_usd}.{decimals:0<9}", language)


def _row_name(name: str, by: str, language: str) -> str:
    return day_text(date.fromisoformat(name), language) if by == "day" else short(name)
