"""The words of printed documents, and how each language writes numbers and days."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from billing.documents.document import DocumentKind
from billing.documents.forms.amounts import cents_text

ENGLISH = {
    "invoice": "Invoice",
    "credit_note": "Credit note",
    "receipt": "Receipt",
    "statement": "Statement of account",
    "draft": "Draft",
    "draft_note": "This is a draft. It has no number, and nothing is due until it is issued.",
    "number": "Number",
    "issued": "Date",
    "due_by": "Due by",
    "period": "Service period",
    "reference": "Your reference",
    "order": "Purchase order",
    "preceding": "Refers to",
    "from": "From",
    "to": "To",
    "vat_id": "VAT id",
    "tax_id": "Tax id",
    "summary": "Summary",
    "lines": "Lines",
    "project": "Project",
    "no_project": "No project",
    "others": "{count} others",
    "description": "Description",
    "quantity": "Quantity",
    "price": "Price",
    "per": "per",
    "amount": "Amount",
    "tax_kind": "Kind",
    "rate": "Rate",
    "net": "Net",
    "subtotal": "Subtotal",
    "net_total": "Net total",
    "tax_total": "Tax",
    "total": "Total",
    "paid": "Paid on account",
    "due": "Amount due",
    "received": "Amount received",
    "received_on": "Received on",
    "payment_name": "Name of the payment",
    "credited": "Amount credited",
    "taxes": "Taxes",
    "in_currency": "In {currency} at {rate} a USD ({source}, {day})",
    "spend": "Spend by day, before tax",
    "spend_alt": "Bar chart of spend by day from {first} to {last}. "
    "The highest is {high} on {day}.",
    "payment": "Payment",
    "account": "Account (IBAN)",
    "remittance": "Please name {number} when you pay.",
    "notes": "Notes",
    "reason": "Reason",
    "by_project": "Usage by project",
    "by_key": "Usage by key",
    "by_day": "Usage by day",
    "name": "Name",
    "day": "Day",
    "calls": "Calls",
    "input": "Input tokens",
    "output": "Output tokens",
    "page": "Page",
    "of": "of",
    "annex_note": "Usage is exact to the nano-dollar, and stands before discounts and tax.",
    "token": "tokens",
    "call": "calls",
    "ms": "ms",
    "balance_due": "Balance due",
    "on_account": "Credit on account",
    "entries": "Entries",
    "entry": "Entry",
    "balance": "Balance",
    "opening_balance": "Opening balance",
    "closing_balance": "Closing balance",
    "invoiced": "Invoiced",
    "notes_and_write_offs": "Credited",
    "payments": "Payments",
    "refunds": "Paid back",
    "invoice_void": "Invoice void",
    "write_off": "Write-off",
    "refund": "Refund",
    "payment_reversed": "Payment reversed",
    "search_unit": "search units",
    "image": "images",
    "second": "seconds",
    "character": "characters",
    "missing": "{mark} stands for a character that the font of this page lacks. The data of this"
    " document has it.",
}
GERMAN = {
    "invoice": "Rechnung",
    "credit_note": "Gutschrift (Rechnungskorrektur)",
    "receipt": "Quittung",
    "statement": "Kontoauszug",
    "draft": "Entwurf",
    "draft_note": "Dies ist ein Entwurf. Er hat keine Nummer, und fällig wird nichts, bevor die"
    " Rechnung ausgestellt ist.",
    "number": "Nummer",
    "issued": "Datum",
    "due_by": "Zahlbar bis",
    "period": "Leistungszeitraum",
    "reference": "Ihre Referenz",
    "order": "Bestellnummer",
    "preceding": "Bezieht sich auf",
    "from": "Von",
    "to": "An",
    "vat_id": "USt-IdNr.",
    "tax_id": "Steuernummer",
    "summary": "Zusammenfassung",
    "lines": "Positionen",
    "project": "Projekt",
    "no_project": "Ohne Projekt",
    "others": "{count} weitere",
    "description": "Beschreibung",
    "quantity": "Menge",
    "price": "Preis",
    "per": "je",
    "amount": "Betrag",
    "tax_kind": "Art",
    "rate": "Satz",
    "net": "Netto",
    "subtotal": "Zwischensumme",
    "net_total": "Nettobetrag",
    "tax_total": "Umsatzsteuer",
    "total": "Gesamtbetrag",
    "paid": "Anzahlungen",
    "due": "Zahlbetrag",
    "received": "Erhaltener Betrag",
    "received_on": "Eingegangen am",
    "payment_name": "Name der Zahlung",
    "credited": "Gutgeschriebener Betrag",
    "taxes": "Steuern",
    "in_currency": "In {currency} zum Kurs {rate} je USD ({source}, {day})",
    "spend": "Ausgaben nach Tagen, vor Steuer",
    "spend_alt": "Balkendiagramm der Ausgaben nach Tagen vom {first} bis {last}. "
    "Der höchste Wert ist {high} am {day}.",
    "payment": "Zahlung",
    "account": "Konto (IBAN)",
    "remittance": "Bitte geben Sie bei der Zahlung {number} an.",
    "notes": "Hinweise",
    "reason": "Grund",
    "by_project": "Nutzung nach Projekten",
    "by_key": "Nutzung nach Schlüsseln",
    "by_day": "Nutzung nach Tagen",
    "name": "Name",
    "day": "Tag",
    "calls": "Aufrufe",
    "input": "Eingabe-Token",
    "output": "Ausgabe-Token",
    "page": "Seite",
    "of": "von",
    "annex_note": "Die Nutzung ist auf Nano-Dollar genau, vor Nachlässen und Steuer.",
    "token": "Token",
    "call": "Aufrufe",
    "ms": "ms",
    "balance_due": "Offener Saldo",
    "on_account": "Guthaben",
    "entries": "Buchungen",
    "entry": "Buchung",
    "balance": "Saldo",
    "opening_balance": "Anfangssaldo",
    "closing_balance": "Endsaldo",
    "invoiced": "Berechnet",
    "notes_and_write_offs": "Gutgeschrieben",
    "payments": "Zahlungen",
    "refunds": "Zurückgezahlt",
    "invoice_void": "Rechnung storniert",
    "write_off": "Ausbuchung",
    "refund": "Rückzahlung",
    "payment_reversed": "Zahlung zurückgebucht",
    "search_unit": "Sucheinheiten",
    "image": "Bilder",
    "second": "Sekunden",
    "character": "Zeichen",
    "missing": "{mark} steht für ein Zeichen, das der Schrift dieser Seite fehlt. Die Daten dieses"
    " Dokuments haben es.",
}
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "de": GERMAN}
MONTHS = (
    "Jan",
    "Feb",
    "Mar",
    "Apr",
    "May",
    "Jun",
    "Jul",
    "Aug",
    "Sep",
    "Oct",
    "Nov",
    "Dec",
)


def words_of(language: str) -> Mapping[str, str]:
    """English where a language has no words here."""
    return LANGUAGES.get(language, ENGLISH)


def printed_language(language: str) -> str:
    """The language itself, or English where it has no words here."""
    return language if language in LANGUAGES else "en"


def title(kind: DocumentKind, language: str) -> str:
    return words_of(language)[kind.value]


def day_text(day: date | None, language: str) -> str:
    """`1 Dec 2026`, `01.12.2026`."""
    if day is None:
        return ""
    if language == "de":
        return f"{day.day:02d}.{day.month:02d}.{day.year}"
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


def money(cents: int, language: str) -> str:
    """`1,234.50`, `1.234,50`; a true minus sign."""
    return grouped(cents_text(cents), language)


def whole(number: int, language: str) -> str:
    return grouped(str(number), language)


def grouped(decimal_text: str, language: str) -> str:
    """A plain decimal as the language groups and points it."""
    sign = "\u2212" if decimal_text.startswith("-") else ""
    digits, point, fraction = decimal_text.lstrip("-").partition(".")
    text = f"{int(digits):,}{point}{fraction}"
    return sign + (text.translate(_GERMAN_POINTS) if language == "de" else text)


_GERMAN_POINTS = str.maketrans(",.", ".,")
