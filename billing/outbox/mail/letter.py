"""An event as a mail, in text and HTML.

Pure. The same event makes the same bytes for the same reader, however often it is sent, and its
`Message-ID` tells a repetition. Names of parties are one line without control characters: none can
begin a header, and in HTML each is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, parseaddr
from html import escape
from typing import Any, NamedTuple

from billing.documents.forms.glyphs import one_line
from billing.documents.forms.words import day_text, grouped
from billing.outbox.mail.words import COMMON, LETTERS

CELL = "padding:2px 12px 2px 0"
NAME_CHARS_MAX = 200


class Reader(NamedTuple):
    """Whom a mail is for, and who bills them. `seller` is "" where nobody does."""

    address: str
    name: str
    seller: str = ""
    language: str = "en"


class MailText(NamedTuple):
    subject: str
    greeting: str
    body: str
    rows: tuple[tuple[str, str], ...]
    closing: str

    @property
    def text(self) -> str:
        rows = "\n".join(f"{name}: {value}" for name, value in self.rows)
        parts = (self.greeting, self.body, rows, self.closing)
        return "\n\n".join(part for part in parts if part) + "\n"

    def html(self, language: str) -> str:
        rows = "".join(
            f'<tr><td style="{CELL}">{escape(name)}</td><td>{escape(value)}</td></tr>'
            for name, value in self.rows
        )
        table = f"<table>{rows}</table>" if rows else ""
        greeting, body, closing = map(_paragraph, (self.greeting, self.body, self.closing))
        return (
            f'<!DOCTYPE html>\n<html lang="{escape(language)}">\n<head><meta charset="utf-8">'
            f"<title>{escape(self.subject)}</title></head>\n<body>\n"
            f"{greeting}\n{body}\n{table}\n{closing}\n</body>\n</html>\n"
        )


def letter_of(event: Mapping[str, Any], reader: Reader) -> MailText:
    """`event` is the body of an event."""
    language = _language(reader)
    words, common, data = LETTERS[language], COMMON[language], event["data"]
    values = _values(data, reader, language, common["we"])
    about = words[_name_of(event)]
    rows = [(common["number"], values["number"])]
    rows.append((common["amount"], f"{values['amount']} {values['currency']}".strip()))
    rows.append((common["due"], values["due"]))
    return MailText(
        about.subject.format(**values),
        common["greeting"].format(**values),
        about.body.format(**values),
        tuple((name, value) for name, value in rows if value),
        values["seller"],
    )


def message_of(
    body: str, reader: Reader, *, sender: str, event_id: str, endpoint_id: str
) -> EmailMessage:
    """The whole mail of an event's body. `sender` is NAME <ADDRESS>."""
    event = json.loads(body)
    letter = letter_of(event, reader)
    name, address = parseaddr(sender)
    message = EmailMessage(policy=SMTP)
    message["From"] = Address(name, addr_spec=address)
    message["To"] = Address(addr_spec=reader.address)
    message["Subject"] = one_line(letter.subject)
    message["Date"] = format_datetime(datetime.fromisoformat(event["timestamp"]))
    message["Message-ID"] = f"<{event_id}.{endpoint_id}@{address.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(letter.text)
    message.add_alternative(letter.html(_language(reader)), subtype="html")
    message.set_boundary(event_id)
    return message


def _name_of(event: Mapping[str, Any]) -> str:
    step = event["data"].get("step")
    return f"{event['type']}/{step}" if step else str(event["type"])


def _values(data: Mapping[str, Any], reader: Reader, language: str, unnamed: str) -> dict[str, str]:
    amount = data.get("due_usd") or data.get("amount_usd") or data.get("total_usd") or ""
    due_at = data.get("due_at")
    return {
        "number": one_line(str(data.get("number") or "")),
        "amount": grouped(amount, language) if amount else "",
        "currency": one_line(str(data.get("currency") or "")),
        "due": day_text(date.fromisoformat(due_at[:10]), language) if due_at else "",
        "buyer": _name(reader.name),
        "seller": _name(reader.seller) or unnamed,
    }


def _name(text: str) -> str:
    return one_line(text)[:NAME_CHARS_MAX].rstrip()


def _language(reader: Reader) -> str:
    return reader.language if reader.language in LETTERS else "en"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""
