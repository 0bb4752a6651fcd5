"""Top-ups: money that came for no invoice becomes paid credit and a receipt, once by its external
id.

Grant, number and frozen receipt are one transaction. The credit is for all models and never ends.
Guards laws 1 and 20.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.credits import grants
from billing.credits.credit import Category, Grant
from billing.credits.grants import GrantConflict
from billing.currencies import store as rates
from billing.currencies.conversion import Conversion
from billing.db.engine import Store, take_turns
from billing.documents import store as documents
from billing.documents.parties import NamedParties, named_in
from billing.documents.receipt_document import receipt_document
from billing.invoices import store as invoices
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.store import RUN_LOCK
from billing.money import NANOUSD_PER_CENT
from billing.outbox import store as outbox
from billing.parties import store as parties
from billing.payments import store as payments
from billing.payments.paying import (
    NotPayable,
    PaymentConflict,
    UnknownPayment,
    check_receipt,
    received_event,
)
from billing.payments.payment import Receipt
from billing.top_ups import store as rows

Row = dict[str, Any]
MICROSECONDS = 1_000_000


class Unsold(NamedTuple):
    """Whom a receipt names where nobody sells, and the series of its number."""

    parties: NamedParties
    series: str


class _Billed(NamedTuple):
    """Whom a receipt names, the series of its number, and the rate of what it shows beside
    USD."""

    parties: NamedParties
    series: str
    conversion: Conversion | None = None


@dataclass(frozen=True, slots=True)
class TopUpState:
    """A top-up, what was given back of it, and what its grant has left."""

    top_up: Row
    refunds: tuple[Row, ...]
    left_nanousd: int

    @property
    def number(self) -> str:
        """`SLU-RC-2026-000001`, of the receipt."""
        return f"{self.top_up['series']}-{self.top_up['number']:06d}"

    @property
    def amount_nanousd(self) -> int:
        return int(self.top_up["amount_cents"]) * NANOUSD_PER_CENT

    @property
    def refunded_nanousd(self) -> int:
        return sum(int(each["amount_cents"]) for each in self.refunds) * NANOUSD_PER_CENT


def top_up(
    store: Store,
    receipt: Receipt,
    *,
    by: str,
    now_us: int,
    unsold: Unsold | None = None,
    guards: Guards = GUARDS,
) -> tuple[TopUpState, bool]:
    """The top-up, and whether it is new. The same again changes nothing. Raises BadPayment,
    PaymentConflict, and NotPayable for an organization without a billing profile, or without the
    rate of the currency that its receipt shows: `unsold` is for where nobody sells at all."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        top_up_id = rows.id_of(receipt.payment_id)
        before = rows.by_id(conn, top_up_id)
        if before is not None:
            if (before["amount_cents"], before["currency"]) != (
                *(receipt.amount_cents, receipt.currency),
            ):
                raise PaymentConflict(f"{receipt.external_id!r} is another top-up already")
            return _state(conn, before), False
        if payments.by_id(conn, receipt.payment_id) is not None:
            raise PaymentConflict(f"{receipt.external_id!r} is a payment already")
        check_receipt(receipt, now_us)
        named, series, conversion = _billed(conn, receipt.org, unsold, guards, now_us)
        row = _numbered(conn, receipt, top_up_id, series, by, now_us)
        try:
            grants.give_in(conn, _grant(row), created_by=by, now_us=now_us, note=receipt.note)
        except GrantConflict as taken:
            raise PaymentConflict(str(taken)) from taken
        rows.insert_top_up(conn, row)
        state = _state(conn, row)
        document = receipt_document(
            *(row, state.number),
            seller=named.seller,
            buyer=named.buyer,
            language=named.terms.language,
            conversion=conversion,
        )
        documents.freeze(conn, top_up_id, document, now_us)
        outbox.tell(conn, received_event(receipt, top_up_id, now_us, number=state.number))
        return state, True


def refund(
    store: Store,
    top_up_id: str,
    cents: int | None,
    *,
    external_id: str,
    reason: str,
    by: str,
    now_us: int,
) -> TopUpState:
    """Give back what no call has used, or some of it, once by its external id. Raises
    UnknownPayment, PaymentConflict."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        state = one(conn, top_up_id)
        for before in state.refunds:
            if before["external_id"] == external_id:
                if cents not in (None, before["amount_cents"]):
                    raise PaymentConflict(f"{external_id!r} is another refund already")
                return state
        left_cents = state.left_nanousd // NANOUSD_PER_CENT
        cents = left_cents if cents is None else cents
        if not 0 < cents <= left_cents:
            raise PaymentConflict(f"{top_up_id} has {left_cents} cents that no call has used")
        n = len(state.refunds) + 1
        try:
            grants.take_back(
                *(conn, top_up_id, cents * NANOUSD_PER_CENT),
                transfer_id=f"{top_up_id}:refund:{n}",
                now_us=now_us,
            )
        except GrantConflict as ended:
            raise PaymentConflict(str(ended)) from ended
        row = {"top_up_id": top_up_id, "n": n, "amount_cents": cents, "external_id": external_id}
        rows.insert_refund(conn, row | {"reason": reason, "created_by": by, "created_us": now_us})
        return one(conn, top_up_id)


def one(conn: Connection, top_up_id: str) -> TopUpState:
    """Raises UnknownPayment."""
    row = rows.by_id(conn, top_up_id)
    if row is None:
        raise UnknownPayment(top_up_id)
    return _state(conn, row)


def list_top_ups(
    store: Store,
    *,
    org: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[TopUpState]:
    """The oldest first, from the one behind an instant and an id."""
    with store.read() as conn:
        return [_state(conn, row) for row in rows.find(conn, org=org, after=after, limit=limit)]


def _billed(
    conn: Connection, org: str, unsold: Unsold | None, guards: Guards, now_us: int
) -> _Billed:
    contact = parties.contact(conn, org)
    if contact is None:
        if unsold is None or parties.has_sellers(conn):
            raise NotPayable("billing_profile_missing", f"{org} has no billing profile")
        return _Billed(*unsold)
    shown = rates.shown(conn, contact, now_us, guards.rate_days)
    if shown is not None and shown.conversion is None:
        raise NotPayable("no_exchange_rate", shown.missing_because)
    rate = None if shown is None else shown.conversion
    return _Billed(named_in(*contact), contact[0].series, rate)


def _numbered(
    conn: Connection, receipt: Receipt, top_up_id: str, series: str, by: str, now_us: int
) -> Row:
    year = str(datetime.fromtimestamp(now_us // MICROSECONDS, UTC).year)
    numbers = rows.receipts_of(series, year)
    return {
        **{"top_up_id": top_up_id, "org": receipt.org, "external_id": receipt.external_id},
        **{"source": receipt.source.value, "amount_cents": receipt.amount_cents},
        **{"currency": receipt.currency, "received_us": receipt.received_us},
        **{"note": receipt.note, "series": numbers},
        **{"number": invoices.next_number(conn, numbers)},
        **{"created_by": by, "created_us": now_us},
    }


def _grant(row: Row) -> Grant:
    return Grant(
        grant_id=row["top_up_id"],
        org=row["org"],
        category=Category.PAID,
        amount_nanousd=row["amount_cents"] * NANOUSD_PER_CENT,
        effective_us=row["created_us"],
        created_us=row["created_us"],
    )


def _state(conn: Connection, row: Row) -> TopUpState:
    refunds = tuple(rows.refunds(conn, row["top_up_id"]))
    return TopUpState(row, refunds, grants.one_in(conn, row["top_up_id"]).left_nanousd)
