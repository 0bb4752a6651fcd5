"""A provider's bill beside what was booked: read, compared, and what is to be posted. Pure.

For each day (UTC) and model the variance is what the bill says less what attempts were booked at
and what earlier bills of that day have posted. So booked attempts and all variances together are
the last bill, to the nano-dollar. Guards that law.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from io import StringIO
from typing import NamedTuple

from billing.money import nanousd

COLUMNS = ("day", "model", "usage_class", "quantity", "amount")
LINES_MAX = 100_000
TEXT_MAX = 200
DAYS_MAX = 366
DAY_US = 86_400_000_000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

Cell = tuple[str, str]
"""A day and a model, as its provider calls it."""


class BadBill(ValueError):
    """The file is no bill. `line` counts from 1, the head of the table."""

    def __init__(self, line: int, words: str) -> None:
        super().__init__(f"line {line}: {words}")
        self.line = line


class BilledClass(NamedTuple):
    """What a bill has of one class of usage, on a day and of a model."""

    quantity: Decimal
    nanousd: int


Bill = Mapping[Cell, Mapping[str, BilledClass]]


class BookedUsage(NamedTuple):
    """What attempts of a day and model were booked at, and their counts by class."""

    nanousd: int = 0
    counts: Mapping[str, int] = {}


class ClassDifference(NamedTuple):
    usage_class: str
    billed_quantity: str
    booked_quantity: str
    billed_nanousd: int


class BillDifference(NamedTuple):
    """Of one day and model. Amounts are nano-USD."""

    day: str
    model: str
    billed_nanousd: int
    booked_nanousd: int
    posted_nanousd: int
    """By earlier bills."""
    classes: tuple[ClassDifference, ...]

    @property
    def variance_nanousd(self) -> int:
        return self.billed_nanousd - self.booked_nanousd - self.posted_nanousd


class BillDays(NamedTuple):
    """Days, [first, last]."""

    first: str
    last: str

    @property
    def start_us(self) -> int:
        return _midnight_us(date.fromisoformat(self.first))

    @property
    def end_us(self) -> int:
        return _midnight_us(date.fromisoformat(self.last) + timedelta(days=1))


def read_bill(text: str) -> Bill:
    """A table of CSV with the columns of COLUMNS, in any order; lines of one day, model and class
    add up. Raises BadBill."""
    table = csv.reader(StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        return _read(table)
    except csv.Error as wrong:
        raise BadBill(table.line_num, str(wrong)) from wrong


def span_of(bill: Bill) -> BillDays:
    days = [day for day, _ in bill]
    return BillDays(min(days), max(days))


def differences(
    bill: Bill, booked: Mapping[Cell, BookedUsage], posted: Mapping[Cell, int]
) -> list[BillDifference]:
    """In the order of days and models. What is not on the bill was billed at nothing."""
    cells = sorted({*bill, *booked, *posted})
    return [
        _difference(cell, bill.get(cell, {}), booked.get(cell, BookedUsage()), posted)
        for cell in cells
    ]


def day_of(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).date().isoformat()


def _difference(
    cell: Cell, billed: Mapping[str, BilledClass], booked: BookedUsage, posted: Mapping[Cell, int]
) -> BillDifference:
    counts = {name: count for name, count in booked.counts.items() if count}
    classes = tuple(
        ClassDifference(
            name,
            _text(billed[name].quantity if name in billed else Decimal(0)),
            str(counts.get(name, 0)),
            billed[name].nanousd if name in billed else 0,
        )
        for name in sorted({*billed, *counts})
    )
    amount = sum(each.nanousd for each in billed.values())
    return BillDifference(*cell, amount, booked.nanousd, posted.get(cell, 0), classes)


def _read(table: Iterator[list[str]]) -> Bill:
    head = next(table, [])
    names = [name.strip().lower().replace(" ", "_") for name in head]
    if missing := [name for name in COLUMNS if name not in names]:
        raise BadBill(1, f"a bill has the columns {', '.join(COLUMNS)}; there is no {missing[0]}")
    places = [names.index(name) for name in COLUMNS]
    bill: dict[Cell, dict[str, BilledClass]] = {}
    for number, row in enumerate(table, 2):
        if not any(cell.strip() for cell in row):
            continue
        if number > LINES_MAX:
            raise BadBill(number, f"a bill has at most {LINES_MAX} lines")
        if len(row) != len(names):
            raise BadBill(number, f"{len(row)} cells under {len(names)} columns")
        cell, name, added = _line(number, [row[place].strip() for place in places])
        classes = bill.setdefault(cell, {})
        before = classes.get(name, BilledClass(Decimal(0), 0))
        classes[name] = BilledClass(
            before.quantity + added.quantity, before.nanousd + added.nanousd
        )
    if not bill:
        raise BadBill(1, "the bill has no lines")
    span = span_of(bill)
    if (span.end_us - span.start_us) // DAY_US > DAYS_MAX:
        raise BadBill(1, f"from {span.first} to {span.last} are more than {DAYS_MAX} days")
    return bill


def _line(number: int, cells: Sequence[str]) -> tuple[Cell, str, BilledClass]:
    day, model, name, quantity, amount = cells
    try:
        if not _DAY.fullmatch(day):
            raise ValueError
        date.fromisoformat(day)
    except ValueError:
        raise BadBill(number, f"{day!r} is no day of the form YYYY-MM-DD") from None
    for what, text in (("model", model), ("usage_class", name)):
        if not text or len(text) > TEXT_MAX or not text.isprintable():
            raise BadBill(number, f"{what} is empty, too long or not printable")
    try:
        count = Decimal(quantity)
    except InvalidOperation:
        raise BadBill(number, f"{quantity!r} is no quantity") from None
    if not count.is_finite() or not 0 <= count < 10**18 or count != round(count, 9):
        raise BadBill(number, f"{quantity!r} is no quantity")
    try:
        return (day, model), name, BilledClass(count, nanousd(amount))
    except ValueError as wrong:
        raise BadBill(number, str(wrong)) from wrong


def _text(quantity: Decimal) -> str:
    return f"{quantity.normalize():f}" if quantity else "0"


def _midnight_us(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
