"""A bank's statement as CSV: rows of money that came, and the number of an invoice in their text.

Pure. The head names the columns `date`, `amount`, `text` and, if there are any, `currency`, `id`
and `payer`. A row is known by the digest of what it says, and by its place among rows that say the
same, so that a file that is read again, or one that begins with the rows of another, books nothing
twice. Who paid is not in the digest.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from io import StringIO

NEEDED = ("date", "amount", "text")
OPTIONAL = ("currency", "id")
PAYER = "payer"
CHARS_MAX = 4_000_000
ROWS_MAX = 20_000
CENTS_MAX = 10**15
NUMBER = re.compile(r"(?<![A-Z0-9-])[A-Z0-9]{1,12}-[0-9]{4}-[0-9]{6,}(?![0-9])")
TOP_UP = re.compile(r"\bTOP-?UP\W+(ORG\W?[A-Z0-9_-]+)", re.IGNORECASE)
"""With the id of an organization, of which banks change case and signs."""
WORD = re.compile(r"\w+")
MICROSECONDS = 1_000_000


class BadBankFile(ValueError):
    """The file is no table of this form."""


@dataclass(frozen=True, slots=True)
class BankRow:
    """A row; `problem` says why it is no payment."""

    row: int
    digest: str
    text: str
    amount: str
    currency: str
    amount_cents: int = 0
    received_us: int = 0
    numbers: tuple[str, ...] = ()
    top_up: str = ""
    """The organization behind the word TOP-UP, in letters and digits alone."""
    payer: str = ""
    problem: str = ""


def bank_rows(text: str) -> list[BankRow]:
    """The rows of a file; the head is row 1. Raises BadBankFile."""
    if len(text) > CHARS_MAX:
        raise BadBankFile(f"it has more than {CHARS_MAX:,} characters")
    lines = text.removeprefix("\ufeff")
    head_line = lines.split("\n", 1)[0]
    reader = csv.reader(StringIO(lines), delimiter=";" if ";" in head_line else ",")
    try:
        rows = list(reader)
    except csv.Error as wrong:
        raise BadBankFile(f"it is no CSV: {wrong}") from wrong
    if len(rows) > ROWS_MAX:
        raise BadBankFile(f"it has more than {ROWS_MAX:,} rows")
    head = [name.strip().lower() for name in rows[0]] if rows else []
    missing = [name for name in NEEDED if name not in head]
    if missing:
        raise BadBankFile(f"its head lacks {', '.join(missing)}")
    return list(_rows(head, rows))


def _rows(head: list[str], rows: list[list[str]]) -> Iterator[BankRow]:
    seen: Counter[tuple[str, ...]] = Counter()
    for number, row in enumerate(rows[1:], start=2):
        if not any(cell.strip() for cell in row):
            continue
        cells = {name: cell.strip() for name, cell in zip(head, row, strict=False)}
        texts = tuple(cells.get(name, "") for name in (*NEEDED, *OPTIONAL))
        seen[texts] += 1
        digest = sha256("\x1f".join((*texts, str(seen[texts]))).encode()).hexdigest()[:32]
        yield _row(number, digest, texts, cells.get(PAYER, ""))


def _row(number: int, digest: str, texts: tuple[str, ...], payer: str) -> BankRow:
    day, amount, text, currency, _ = texts
    currency = currency.upper() or "USD"
    row = BankRow(number, digest, text, amount, currency)
    try:
        at = datetime.combine(date.fromisoformat(day), time(), UTC)
        cents = _cents(amount)
    except ValueError as wrong:
        return BankRow(number, digest, text, amount, currency, problem=str(wrong))
    if cents <= 0:
        return BankRow(number, digest, text, amount, currency, problem="no money came")
    numbers = tuple(dict.fromkeys(NUMBER.findall(text.upper())))
    top_up = TOP_UP.search(text)
    return BankRow(
        *(row.row, digest, text, amount, currency, cents),
        received_us=int(at.timestamp()) * MICROSECONDS,
        numbers=numbers,
        top_up=plain_id(top_up[1]) if top_up else "",
        payer=payer,
    )


def names_another(row: BankRow, org: str, names: Mapping[str, str]) -> str | None:
    """The organization whose name a row bears that pays an invoice of `org`, unless it bears the
    name of that one too. The payer is looked at where the file says it, else the text. `names` has
    the `words_of` each name."""
    payer = words_of(row.payer or row.text)
    named = {each for each, words in names.items() if words.strip() and words in payer}
    return None if org in named else min(named, default=None)


def plain_id(org: str) -> str:
    """An id as it is after a bank has changed case and signs."""
    return "".join(each for each in org.casefold() if each.isalnum())


def words_of(text: str) -> str:
    """In lower case, one blank around each word."""
    return f" {' '.join(WORD.findall(text.casefold()))} "


def _cents(amount: str) -> int:
    """`1,234.50` and `1.234,50` alike: the last of the two signs has the cents behind it."""
    point = "," if amount.rfind(",") > amount.rfind(".") else "."
    thousands = "." if point == "," else ","
    try:
        scaled = Decimal(amount.replace(thousands, "").replace(point, ".")) * 100
    except InvalidOperation:
        raise ValueError("its amount is no number") from None
    if not scaled.is_finite() or scaled != scaled.to_integral_value() or abs(scaled) > CENTS_MAX:
        raise ValueError("its amount is not in whole cents")
    return int(scaled)
