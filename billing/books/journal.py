"""The journal of a month: what moved between two accounts of the books on a day, as one entry.

Pure. An entry is of the day on which the ledger has it, so a month that has passed gets no further
entry, however late a call is told. What is late shows the month of its service. Amounts are exact,
to the nano-dollar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from billing.books.accounts import ACCOUNTS, account_for
from billing.money import usd

COLUMNS = (
    *("date", "kind", "organization", "debit", "credit", "amount_usd", "currency", "transfers"),
    "service_month",
)
OPENED = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, order=True)
class JournalEntry:
    """The sum of transfers of one day, kind, organization, pair of accounts and service month."""

    day: date
    kind: str
    org: str
    debit: str
    credit: str
    service_month: str
    amount_nanousd: int
    transfers: int


def entries(
    sums: Iterable[tuple[date, str, str, str, str, str, int, int]],
    accounts: Mapping[str, str] = ACCOUNTS,
) -> list[JournalEntry]:
    """(day, kind, organization, debit account, credit account, month of service, amount, count) of
    the ledger, by accounts of the books. Raises UnmappedAccount."""
    totals: dict[tuple[date, str, str, str, str, str], tuple[int, int]] = {}
    for day, kind, org, debit, credit, month, amount, count in sums:
        sides = account_for(debit, accounts), account_for(credit, accounts)
        key = (day, kind, org, *sides, month)
        before = totals.get(key, (0, 0))
        totals[key] = before[0] + amount, before[1] + count
    return sorted(JournalEntry(*key, *total) for key, total in totals.items())


def rows_of_journal(journal: Iterable[JournalEntry]) -> Iterator[dict[str, object]]:
    """Cells by COLUMNS."""
    for entry in journal:
        texts = (entry.day.isoformat(), entry.kind, entry.org, entry.debit, entry.credit)
        amount = usd(entry.amount_nanousd)
        cells = (*texts, amount, "USD", entry.transfers, entry.service_month)
        yield dict(zip(COLUMNS, cells, strict=True))


def beancount_journal(
    journal: Iterable[JournalEntry], accounts: Mapping[str, str] = ACCOUNTS
) -> Iterator[str]:
    """A file for `bean-check`, in parts."""
    yield 'option "operating_currency" "USD"\n\n'
    for account in sorted(set(accounts.values())):
        yield f"{OPENED.isoformat()} open {account} USD\n"
    for entry in journal:
        amount = usd(entry.amount_nanousd)
        narration = _quoted(f"{entry.kind} {entry.org}".strip())
        yield (
            f"\n{entry.day.isoformat()} * {narration}\n"
            f"  transfers: {entry.transfers}\n"
            f'  service_month: "{entry.service_month}"\n'
            f"  {entry.debit}  {amount} USD\n"
            f"  {entry.credit}  -{amount} USD\n"
        )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{" ".join(escaped.split())}"'
