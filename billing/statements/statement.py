"""A statement of account: what an organization owed, what changed that, and what it owes since.

Pure. Amounts are whole cents. Above zero the organization owes; below zero it has credit on
account. Paying an invoice from credit on account changes no balance, so it is no entry, and neither
is the credit of an invoice below zero, which is one already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import NamedTuple

from billing.documents.forms.csv_table import Number
from billing.money import NANOUSD_PER_CENT, usd

COLUMNS = ("at", "kind", "id", "number", "amount_usd", "balance_usd")
INVOICED = ("invoice", "invoice_void")
CREDITED = ("credit_note", "write_off")
PAID = ("payment",)
MICROSECONDS = 1_000_000


class Movement(NamedTuple):
    """What a document or a payment added to what an organization owes. `number` is that of a
    document, or the name that the sender of a payment gave it."""

    at_us: int
    kind: str
    id: str
    number: str
    amount_cents: int


@dataclass(frozen=True, slots=True)
class StatementEntry:
    movement: Movement
    balance_cents: int
    """What is owed after it."""

    @property
    def amount_nanousd(self) -> int:
        return self.movement.amount_cents * NANOUSD_PER_CENT

    @property
    def balance_nanousd(self) -> int:
        return self.balance_cents * NANOUSD_PER_CENT


@dataclass(frozen=True, slots=True)
class Statement:
    """Of [from_us, to_us). Opening, invoiced and refunded less credited and paid is closing."""

    org: str
    from_us: int
    to_us: int
    opening_cents: int
    entries: tuple[StatementEntry, ...]

    @property
    def closing_cents(self) -> int:
        return self.entries[-1].balance_cents if self.entries else self.opening_cents

    @property
    def opening_nanousd(self) -> int:
        return self.opening_cents * NANOUSD_PER_CENT

    @property
    def closing_nanousd(self) -> int:
        return self.closing_cents * NANOUSD_PER_CENT

    @property
    def invoiced_nanousd(self) -> int:
        return self._sum(INVOICED)

    @property
    def credited_nanousd(self) -> int:
        return -self._sum(CREDITED)

    @property
    def paid_nanousd(self) -> int:
        return -self._sum(PAID)

    @property
    def refunded_nanousd(self) -> int:
        """What left again: refunds, and payments that did not hold."""
        others = {entry.movement.kind for entry in self.entries}
        return self._sum(others.difference(INVOICED, CREDITED, PAID))

    def _sum(self, kinds: Iterable[str]) -> int:
        of_kinds = frozenset(kinds)
        return sum(each.amount_nanousd for each in self.entries if each.movement.kind in of_kinds)


def statement_of(
    org: str, from_us: int, to_us: int, opening_cents: int, movements: Iterable[Movement]
) -> Statement:
    """Movements in the order in which they happened."""
    moved = list(movements)
    balances = accumulate((each.amount_cents for each in moved), initial=opening_cents)
    next(balances)
    entries = tuple(StatementEntry(*each) for each in zip(moved, balances, strict=True))
    return Statement(org, from_us, to_us, opening_cents, entries)


def rows_of_statement(statement: Statement) -> Iterator[dict[str, object]]:
    """Cells by COLUMNS: the opening balance, each entry, the closing balance."""
    yield _balance("opening_balance", statement.from_us, statement.opening_nanousd)
    for entry in statement.entries:
        moved = entry.movement
        amount, balance = Number(usd(entry.amount_nanousd)), Number(usd(entry.balance_nanousd))
        cells = (_iso(moved.at_us), moved.kind, moved.id, moved.number, amount, balance)
        yield dict(zip(COLUMNS, cells, strict=True))
    yield _balance("closing_balance", statement.to_us, statement.closing_nanousd)


def _balance(kind: str, at_us: int, nanousd: int) -> dict[str, object]:
    return {"at": _iso(at_us), "kind": kind, "balance_usd": Number(usd(nanousd))}


def _iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / MICROSECONDS, UTC).isoformat()
