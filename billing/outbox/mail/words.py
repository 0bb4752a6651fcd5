"""What mails say of each event, in each language. `{...}` are the values of `letter.py`.

An event of several steps has words for each, under TYPE/STEP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from billing.outbox.event import EventType


class LetterWords(NamedTuple):
    subject: str
    body: str


ENGLISH_LETTERS: Mapping[str, LetterWords] = {
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
    f"{EventType.INVOICE_OVERDUE}/reminder": LetterWords(
        "Reminder: invoice {number} is overdue",
        "Invoice {number} of {seller} was due on {due} and is not paid in full yet. "
        "If you have paid in the meantime, please disregard this message.",
    ),
    f"{EventType.INVOICE_OVERDUE}/second_reminder": LetterWords(
        "Second reminder: invoice {number} is overdue",
        "Invoice {number} of {seller} was due on {due} and is still not paid in full. "
        "Please pay it now.",
    ),
    f"{EventType.INVOICE_OVERDUE}/last_notice": LetterWords(
        "Last notice: invoice {number} is overdue",
        "Invoice {number} of {seller} was due on {due}. This is the last notice. "
        "Please pay it at once.",
    ),
    f"{EventType.INVOICE_OVERDUE}/suspension": LetterWords(
        "Service suspended: invoice {number} is overdue",
        "Invoice {number} of {seller} was due on {due} and is not paid. Your service is "
        "suspended. It goes on as soon as the invoice is paid.",
    ),
    EventType.ORGANIZATION_SUSPENDED: LetterWords(
        "Your service is suspended",
        "{seller} has suspended your service, since an invoice is overdue. It goes on as soon as "
        "the invoice is paid.",
    ),
    EventType.ORGANIZATION_REINSTATED: LetterWords(
        "Your service goes on",
        "Your service is suspended no more. Thank you.",
    ),
    EventType.PAYMENT_RECEIVED: LetterWords(
        "Your payment of {amount} {currency} has arrived",
        "{seller} has received your payment. Thank you.",
    ),
}
GERMAN_LETTERS: Mapping[str, LetterWords] = {
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
    f"{EventType.INVOICE_OVERDUE}/reminder": LetterWords(
        "Zahlungserinnerung: Rechnung {number}",
        "Die Rechnung {number} von {seller} war am {due} fällig und ist noch nicht vollständig "
        "bezahlt. Haben Sie inzwischen gezahlt, ist diese Nachricht gegenstandslos.",
    ),
    f"{EventType.INVOICE_OVERDUE}/second_reminder": LetterWords(
        "Zweite Mahnung: Rechnung {number}",
        "Die Rechnung {number} von {seller} war am {due} fällig und ist weiterhin nicht "
        "vollständig bezahlt. Bitte zahlen Sie jetzt.",
    ),
    f"{EventType.INVOICE_OVERDUE}/last_notice": LetterWords(
        "Letzte Mahnung: Rechnung {number}",
        "Die Rechnung {number} von {seller} war am {due} fällig. Dies ist die letzte Mahnung. "
        "Bitte zahlen Sie umgehend.",
    ),
    f"{EventType.INVOICE_OVERDUE}/suspension": LetterWords(
        "Dienst gesperrt: Rechnung {number} ist überfällig",
        "Die Rechnung {number} von {seller} war am {due} fällig und ist nicht bezahlt. Ihr Dienst "
        "ist gesperrt. Sobald die Rechnung bezahlt ist, geht er weiter.",
    ),
    EventType.ORGANIZATION_SUSPENDED: LetterWords(
        "Ihr Dienst ist gesperrt",
        "{seller} hat Ihren Dienst gesperrt, weil eine Rechnung überfällig ist. Sobald sie bezahlt "
        "ist, geht er weiter.",
    ),
    EventType.ORGANIZATION_REINSTATED: LetterWords(
        "Ihr Dienst geht weiter",
        "Ihr Dienst ist nicht mehr gesperrt. Vielen Dank.",
    ),
    EventType.PAYMENT_RECEIVED: LetterWords(
        "Ihre Zahlung über {amount} {currency} ist eingegangen",
        "{seller} hat Ihre Zahlung erhalten. Vielen Dank.",
    ),
}
LETTERS: Mapping[str, Mapping[str, LetterWords]] = {
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
