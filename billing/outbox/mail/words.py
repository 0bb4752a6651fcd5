"""What mails say of each event, in each language. `{...}` are the values of `letter.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from billing.outbox.event import EventType


class LetterWords(NamedTuple):
    subject: str
    body: str


ENGLISH_LETTERS: Mapping[EventType, LetterWords] = {
    EventType.INVOICE_ISSUED: LetterWords(
        "Invoice {number} from {seller}",
        "{seller} has issued invoice {number} to you.",
    ),
    EventType.INVOICE_PAID: LetterWords(
        "Invoice {number} is paid",
        "Invoice {number} is paid in full. Thank you.",
    ),
    EventType.INVOICE_VOIDED: LetterWords(
        "Invoice {number} is void",
        "Invoice {number} is void: nothing is due by it any more.",
    ),
    EventType.PAYMENT_RECEIVED: LetterWords(
        "Your payment of {amount} {currency} has arrived",
        "{seller} has received your payment. Thank you.",
    ),
}
GERMAN_LETTERS: Mapping[EventType, LetterWords] = {
    EventType.INVOICE_ISSUED: LetterWords(
        "Rechnung {number} von {seller}",
        "{seller} hat Ihnen die Rechnung {number} gestellt.",
    ),
    EventType.INVOICE_PAID: LetterWords(
        "Rechnung {number} ist bezahlt",
        "Die Rechnung {number} ist vollständig bezahlt. Vielen Dank.",
    ),
    EventType.INVOICE_VOIDED: LetterWords(
        "Rechnung {number} ist storniert",
        "Die Rechnung {number} ist storniert: Aus ihr ist nichts mehr fällig.",
    ),
    EventType.PAYMENT_RECEIVED: LetterWords(
        "Ihre Zahlung über {amount} {currency} ist eingegangen",
        "{seller} hat Ihre Zahlung erhalten. Vielen Dank.",
    ),
}
LETTERS: Mapping[str, Mapping[EventType, LetterWords]] = {
    "en": ENGLISH_LETTERS,
    "de": GERMAN_LETTERS,
}
COMMON: Mapping[str, Mapping[str, str]] = {
    "en": {
        "greeting": "Dear {buyer},",
        "number": "Invoice",
        "amount": "Amount",
        "due": "Due by",
        "we": "Your provider",
    },
    "de": {
        "greeting": "Guten Tag, {buyer},",
        "number": "Rechnung",
        "amount": "Betrag",
        "due": "Zahlbar bis",
        "we": "Ihr Anbieter",
    },
}
