"""What stands on the pages of a statement of account: strings in places, for `page.typ` to set.

Pure. The parties and what is owed come first, then every entry with the balance after it, between
the opening and the closing balance, then sums that lead from the one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import msgspec

from billing.documents.document import DocumentKind, DocumentParty
from billing.documents.forms.glyphs import printable
from billing.documents.forms.printed import DASH, Page, Words, account_line, party_lines, short
from billing.documents.forms.words import day_text, money, printed_language, title, words_of
from billing.money import NANOUSD_PER_CENT
from billing.statements.statement import MICROSECONDS, Statement, StatementEntry

CURRENCY = "USD"
WIDTHS_CM = [2.4, 0, 3, 3]


class StatementSheet(msgspec.Struct, frozen=True):
    """A statement, and whom it names."""

    statement: Statement
    seller: DocumentParty
    buyer: DocumentParty
    language: str = "en"


def last_day(statement: Statement) -> date:
    """Of the span, whose end is exclusive."""
    return _day(max(statement.from_us, statement.to_us - 1))


def page_of_statement(sheet: StatementSheet) -> Page:
    """The page as data, in the shape of `printed.page_of`."""
    statement, language = sheet.statement, sheet.language
    words, end = words_of(language), last_day(statement)
    name = title(DocumentKind.STATEMENT, language)
    period = f"{day_text(_day(statement.from_us), language)} {DASH} {day_text(end, language)}"
    closing = statement.closing_cents
    return {
        "language": printed_language(language),
        "words": dict(words),
        "title": printable(f"{name} {period}"),
        "heading": name,
        "subtitle": period,
        "day": [end.year, end.month, end.day],
        "draft": False,
        "foot": short(f"{sheet.seller.name} · {name} {period}"),
        "seller": party_lines(sheet.seller, language),
        "buyer": party_lines(sheet.buyer, language),
        "facts": [],
        "due_label": words["on_account" if closing < 0 else "balance_due"],
        "due": f"{money(abs(closing), language)} {CURRENCY}",
        "table": {
            "title": words["entries"],
            "head": [words[each] for each in ("day", "entry", "amount", "balance")],
            "columns": WIDTHS_CM,
            "rows": list(_rows(statement, words, language)),
        },
        "totals": _totals(statement, words, language),
        "taxes": [],
        "payment": _payment(sheet, words),
        "notes": [],
        "chart": None,
        "annexes": [],
        "xml": None,
    }


def _rows(statement: Statement, words: Words, language: str) -> Iterator[list[str]]:
    first, last = _day(statement.from_us), last_day(statement)
    yield _balance(first, words["opening_balance"], statement.opening_cents, language)
    for entry in statement.entries:
        yield _entry(entry, words, language)
    yield _balance(last, words["closing_balance"], statement.closing_cents, language)


def _entry(entry: StatementEntry, words: Words, language: str) -> list[str]:
    moved = entry.movement
    return [
        day_text(_day(moved.at_us), language),
        short(f"{words[moved.kind]} {moved.number}"),
        money(moved.amount_cents, language),
        money(entry.balance_cents, language),
    ]


def _balance(day: date, label: str, cents: int, language: str) -> list[str]:
    return [day_text(day, language), label, "", money(cents, language)]


def _totals(statement: Statement, words: Words, language: str) -> list[list[Any]]:
    sums = (
        ("opening_balance", statement.opening_nanousd),
        ("invoiced", statement.invoiced_nanousd),
        ("notes_and_write_offs", -statement.credited_nanousd),
        ("payments", -statement.paid_nanousd),
        ("refunds", statement.refunded_nanousd),
        ("closing_balance", statement.closing_nanousd),
    )
    rows: list[list[Any]] = [[words["amount"], CURRENCY]]
    return rows + [
        [words[name], money(nanousd // NANOUSD_PER_CENT, language), name == "closing_balance"]
        for name, nanousd in sums
    ]


def _payment(sheet: StatementSheet, words: Words) -> list[str]:
    is_owed = sheet.statement.closing_cents > 0
    iban = sheet.seller.iban
    return [account_line(iban, words)] if is_owed and iban else []


def _day(at_us: int) -> date:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).date()
