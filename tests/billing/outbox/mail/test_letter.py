"""Laws of letters: whatever names are, a mail has the headers that we wrote, and no markup."""

from __future__ import annotations

from email.parser import BytesParser
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.dunning.steps import StepName
from billing.outbox.addresses import BadUrl
from billing.outbox.event import EventType, OutboxEvent
from billing.outbox.mail.address import address_of, is_address
from billing.outbox.mail.letter import Reader, letter_of, message_of
from billing.outbox.mail.words import COMMON, LETTERS
from tests.hard_text import HARD

HEADERS = {"from", "to", "subject", "date", "message-id", "auto-submitted"}
OF_MIME = {"mime-version", "content-type"}
HOSTILE = [
    *HARD.values(),
    "Reed\r\nBcc: all@example.com\r\n\r\n<script>alert(1)</script>",
    "=?utf-8?q?a=0d=0aBcc:_b@c?=",
    "\u202eevil\u2066 <b>&amp;</b>",
    "{number} {0.__class__} %s",
    "x" * 500,
]
NAMES = st.sampled_from(HOSTILE) | st.text(max_size=500)
DATA = {
    **{"number": "SLU-2026-000001", "organization": "org_1", "currency": "USD"},
    **{"total_usd": "1234.50", "amount_usd": "1.00", "due_at": "2026-12-01T00:00:00Z"},
}


def sent(kind: EventType, reader: Reader, **data: Any) -> bytes:
    event = OutboxEvent(kind, "org_1", "inv_1", DATA | data, 1_800_000_000_000_000)
    named = {"event_id": event.event_id, "endpoint_id": "wh_1"}
    message = message_of(event.body, reader, sender="Größe & Co <b@sluice.example>", **named)
    return message.as_bytes()


@settings(max_examples=30)
@given(
    name=st.sampled_from(sorted(LETTERS["en"])),
    names=st.tuples(NAMES, NAMES),
    language=st.sampled_from(["en", "de", "fr"]),
)
def test_names_begin_no_header_and_no_element_and_the_same_event_is_the_same_mail(
    name: str, names: tuple[str, str], language: str
) -> None:
    reader = Reader("a@reed.example", *names, language)
    kind, _, step = name.partition("/")
    data = {"number": names[0], "step": step or None}
    raw = sent(EventType(kind), reader, **data)
    assert raw == sent(EventType(kind), reader, **data)
    assert max(map(len, raw.split(b"\r\n"))) <= 998
    mail = BytesParser(policy=default).parsebytes(raw)
    assert {name.lower() for name in mail} == HEADERS | OF_MIME
    assert (mail["to"], mail.is_multipart()) == ("a@reed.example", True)
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None and html is not None
    elements = Elements()
    elements.feed(html.get_content())
    assert elements.names <= {"html", "head", "meta", "title", "body", "p", "table", "tr", "td"}


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, _attrs: Any) -> None:
        self.names.add(tag)


def test_every_event_has_words_in_every_language() -> None:
    for language, letters in LETTERS.items():
        assert {name.partition("/")[0] for name in letters} == set(EventType) - {EventType.USAGE}, (
            language
        )
        assert set(letters) == set(LETTERS["en"])
        assert {name.partition("/")[2] for name in letters} == {"", *StepName}
        assert set(COMMON[language]) == set(COMMON["en"])


def test_letter_says_what_is_due_as_its_language_writes_it() -> None:
    told = {"type": "invoice.issued", "data": DATA | {"amount_usd": None}}
    german = letter_of(told, Reader("a@b", "Reed", "Wir GmbH", "de"))
    assert german.subject == "Rechnung SLU-2026-000001 von Wir GmbH"
    assert ("Zahlbar bis", "01.12.2026") in german.rows
    assert ("Betrag", "1.234,50 USD") in german.rows
    english = letter_of(told, Reader("a@b", "Reed"))
    assert english.text == (
        "Dear Reed,\n\nYour provider has issued invoice SLU-2026-000001 to you.\n\n"
        "Invoice: SLU-2026-000001\nAmount: 1,234.50 USD\nDue by: 1 Dec 2026\n\nYour provider\n"
    )


@pytest.mark.parametrize("address", ["a", "a@", "@b", "a b@c", "a@b\n", "a@b,c@d", "<a@b>", "ü@b"])
def test_what_is_no_address_is_none(address: str) -> None:
    assert not is_address(address)
    with pytest.raises(BadUrl):
        address_of(f"mailto:{address}")


def test_address_is_named_or_that_of_the_organization() -> None:
    assert (address_of("mailto:"), address_of("mailto:a.b+c@d.example")) == (
        None,
        "a.b+c@d.example",
    )
