"""A statement on paper: the claims of an invoice, every entry, and the balance that it leads to."""

import io
import json
from datetime import UTC, datetime

import pikepdf
import pytest
from pypdf import PdfReader

from billing.documents.forms.pdf import pdf_of_statement
from billing.documents.forms.words import ENGLISH, GERMAN
from billing.documents.press import Press
from billing.statements.printed import StatementSheet, page_of_statement
from billing.statements.statement import Movement, statement_of
from billing.statements.store import LEFT
from tests.billing.documents.made import GERMAN as BUYER
from tests.billing.documents.made import SELLER

FROM_US = round(datetime(2026, 11, 1, tzinfo=UTC).timestamp() * 1e6)
DAY_US = 86_400 * 10**6
KINDS = ("invoice", "payment", "credit_note", "invoice_void", "write_off", *LEFT.values())


def sheet(entries: int, *, paid: int = -700, language: str = "en") -> StatementSheet:
    """Invoices of 1,000 cents that are paid in part, over 30 days."""
    moved = [
        Movement(
            FROM_US + n * 30 * DAY_US // max(entries, 1),
            "payment" if n % 2 else "invoice",
            f"id_{n}",
            f"wire-{n:05}" if n % 2 else f"SLU-2026-{n:06}",
            paid if n % 2 else 1_000,
        )
        for n in range(entries)
    ]
    stated = statement_of("org_1", FROM_US, FROM_US + 30 * DAY_US, 250, moved)
    return StatementSheet(stated, SELLER, BUYER, language)


def pages(pdf: bytes) -> list[str]:
    return [page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages]


def test_printed_statement_makes_the_claims_of_an_invoice_and_says_every_entry() -> None:
    pdf = pdf_of_statement(sheet(4))
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        metadata = opened.Root.Metadata.read_bytes().decode()
    for claim in ("pdfaid:part>3<", "pdfaid:conformance>A<", "pdfuaid:part>1<"):
        assert claim in metadata, claim
    shown = "\n".join(pages(pdf))
    for words in (
        *("Statement of account", "1 Nov 2026 \u2013 30 Nov 2026", SELLER.name, BUYER.name),
        *("Opening balance", "Invoice SLU-2026-000002", "Payment wire-00003", "Closing balance"),
        *("Balance due", "8.50 USD", "DE89 3704 0044 0532 0130 00"),
    ):
        assert words in shown, words
    assert pdf == pdf_of_statement(sheet(4))


def test_long_statement_repeats_its_headings_on_each_page() -> None:
    shown = pages(pdf_of_statement(sheet(120)))
    assert len(shown) >= 3
    assert all("Balance" in page for page in shown[:-1])
    assert "".join(shown).count("Invoice SLU-") == 60


def test_credit_on_account_is_said_as_such_in_the_language_of_the_buyer() -> None:
    shown = "\n".join(pages(pdf_of_statement(sheet(2, paid=-2_000, language="de"))))
    assert "Guthaben" in shown and "7,50 USD" in shown and "\u22127,50" in shown
    assert "IBAN" not in shown


@pytest.mark.parametrize("words", [ENGLISH, GERMAN])
def test_every_kind_of_entry_has_a_word(words: dict[str, str]) -> None:
    assert set(KINDS) <= words.keys()


def test_sums_of_the_page_lead_from_opening_to_closing() -> None:
    moved = [Movement(FROM_US, kind, kind, "", 10**n) for n, kind in enumerate(KINDS)]
    page = page_of_statement(
        StatementSheet(statement_of("org_1", FROM_US, FROM_US, 5, moved), SELLER, BUYER)
    )
    *sums, closing = [
        float(row[1].replace(",", "").replace("\u2212", "-")) for row in page["totals"][1:]
    ]
    assert round(sum(sums), 2) == closing and json.dumps(page)


async def test_press_makes_statements_too() -> None:
    press = Press()
    try:
        assert await press.make_statement(sheet(2)) == pdf_of_statement(sheet(2))
    finally:
        await press.close()
