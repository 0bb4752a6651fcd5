"""The books as an administrator reads them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request

from billing.books.accounts import UnmappedAccount, with_own
from billing.books.closing import ClosedMonth, PeriodNotEnded, close, closed_months
from billing.books.journal import COLUMNS, JournalEntry, beancount_journal, rows_of_journal
from billing.books.receivables import Receivable
from billing.books.store import journal_of, receivables
from billing.db.engine import Store
from billing.documents.forms.csv_table import csv_bytes
from billing.money import NANOUSD_PER_CENT
from billing.periods import BadPeriod, period
from gateway.admin.use_cases import ADMIN, attempt
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import ApiError, bad_request
from routing.types import Clock

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class ReceivableRow:
    """One organization, by age in nano-USD."""

    org: str
    nanousd: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BookService:
    ledger: Store
    clock: Clock
    accounts: Mapping[str, str]

    async def close(self, month: str) -> ClosedMonth:
        """Raises ApiError 400 for what is no month, 409 for one that has not ended."""
        now_us = round(self.clock() * 1e6)
        try:
            return await attempt(lambda: close(self.ledger, period(month), by=ADMIN, now_us=now_us))
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong
        except PeriodNotEnded as early:
            raise ApiError(409, f"{early}.", code="period_not_ended") from early

    async def closed(self, request: PageRequest) -> PageRows[ClosedMonth]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, ClosedMonth]]:
            months = [((month.period,), month) for month in closed_months(self.ledger)]
            return _behind(months, behind, limit)

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def csv_journal(self, month: str) -> bytes:
        """Raises ApiError 400 for what is no month."""
        return csv_bytes(COLUMNS, rows_of_journal(await self._journal(month)))

    async def beancount_journal(self, month: str) -> str:
        """Raises ApiError 400 for what is no month."""
        return "".join(beancount_journal(await self._journal(month), self.accounts))

    async def receivables(self, request: PageRequest) -> PageRows[ReceivableRow]:
        now_us = round(self.clock() * 1e6)

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, ReceivableRow]]:
            rows = [((row.org,), _row(row)) for row in receivables(self.ledger, now_us)]
            return _behind(rows, behind, limit)

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def _journal(self, month: str) -> list[JournalEntry]:
        try:
            return await attempt(lambda: journal_of(self.ledger, period(month), self.accounts))
        except BadPeriod as wrong:
            raise bad_request(str(wrong), "period") from wrong
        except UnmappedAccount as code:
            message = f"The books have no account for '{code}'."
            raise ApiError(409, message, code="account_not_mapped") from code


def _behind(
    rows: Sequence[tuple[Key, Row]], behind: Key | None, limit: int
) -> Sequence[tuple[Key, Row]]:
    return [(key, row) for key, row in rows if behind is None or key > behind][:limit]


def _row(row: Receivable) -> ReceivableRow:
    cents = row.by_age | {"due": row.due_cents, "on_account": row.on_account_cents}
    nanousd = {name: each * NANOUSD_PER_CENT for name, each in cents.items()}
    return ReceivableRow(row.org, nanousd)


async def books_of(request: Request) -> BookService:
    parts = parts_of(request)
    accounts = with_own(parts.settings.ledger.book_accounts)
    return BookService(parts.ledger, parts.outside.clock, accounts)


Books = Annotated[BookService, Depends(books_of)]
