"""What the books need of the ledger: sums of transfers by day, and invoices that are not paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

from sqlalchemy import Connection, func, select

from billing.books.accounts import ACCOUNTS
from billing.books.journal import JournalEntry, entries
from billing.books.receivables import DAY_US, OpenInvoice, Receivable, by_age
from billing.db.engine import Store
from billing.invoices.months import list_invoices
from billing.ledger.store import TRANSFER
from billing.money import NANOUSD_PER_CENT
from billing.payments import store as payments
from billing.periods import Period

EPOCH_DAY = date(1970, 1, 1).toordinal()


def journal_of(
    store: Store, month: Period, accounts: Mapping[str, str] = ACCOUNTS
) -> list[JournalEntry]:
    """The entries of a month, by the days on which the ledger has them. Raises UnmappedAccount."""
    with store.read() as conn:
        return entries(_sums(conn, month), accounts)


def receivables(store: Store, now_us: int) -> list[Receivable]:
    with store.read() as conn:
        on_account = sorted(payments.on_account_by_org(conn).items())
    unpaid = (
        OpenInvoice(
            result.invoice["org"],
            result.due_nanousd // NANOUSD_PER_CENT,
            result.invoice["due_us"] or result.invoice["computed_us"],
        )
        for result in list_invoices(store, now_us=now_us)
        if result.number is not None and result.due_nanousd
    )
    return by_age(unpaid, on_account, now_us)


def _sums(
    conn: Connection, month: Period
) -> Iterator[tuple[date, str, str, str, str, str, int, int]]:
    day, service_day = TRANSFER.c.created_us // DAY_US, TRANSFER.c.booked_us // DAY_US
    by = (TRANSFER.c.kind, TRANSFER.c.org, TRANSFER.c.debit_account, TRANSFER.c.credit_account)
    statement = (
        select(
            *(day.label("day"), *by, service_day.label("service_day")),
            *(func.sum(TRANSFER.c.amount_nanousd), func.count()),
        )
        .where(TRANSFER.c.created_us >= month.start_us, TRANSFER.c.created_us < month.end_us)
        .group_by("day", *by, "service_day")
    )
    for number, kind, org, debit, credit, service, amount, count in conn.execute(statement):
        at, served = (date.fromordinal(EPOCH_DAY + int(each)) for each in (number, service))
        yield at, kind, org, debit, credit, f"{served:%Y-%m}", int(amount), int(count)
