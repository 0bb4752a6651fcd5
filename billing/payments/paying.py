"""Payments as they are booked: each once by its external id, in a transaction that no void and no
other payment comes between. Guards law 1."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.currencies.conversion import USD
from billing.db.engine import Store, take_turns
from billing.dunning.suspension import lift, suspend_again
from billing.invoices import store as invoices
from billing.invoices.events import tell_of_invoice
from billing.invoices.store import RUN_LOCK
from billing.money import NANOUSD_MAX, NANOUSD_PER_CENT, usd
from billing.outbox import store as outbox
from billing.outbox.event import EventType, OutboxEvent
from billing.payments import store as rows
from billing.payments.payment import BadPayment, PartKind, Receipt, Source, applied_cents, due
from billing.top_ups import store as top_ups

Row = dict[str, Any]
CENTS_MAX = NANOUSD_MAX // 2 // NANOUSD_PER_CENT


class UnknownPayment(LookupError):
    """There is no payment of this id."""


class NotPayable(Exception):
    """The invoice is a draft, or void. `code` is that of the refusal."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class PaymentConflict(Exception):
    """The external id stands for another payment, or what is to leave is not there."""


class Tendered(NamedTuple):
    """What came, in its own currency."""

    currency: str
    amount_nano: int


@dataclass(frozen=True, slots=True)
class PaymentState:
    """A payment, what invoices have of it, and what left again."""

    payment: Row
    parts: tuple[Row, ...]

    @property
    def amount_nanousd(self) -> int:
        return int(self.payment["amount_cents"]) * NANOUSD_PER_CENT

    @property
    def tendered(self) -> Tendered | None:
        """None where it came in USD."""
        currency, cents = self.payment["tendered_currency"], self.payment["tendered_cents"]
        return None if currency is None else Tendered(currency, cents * NANOUSD_PER_CENT)

    @property
    def applied_nanousd(self) -> int:
        return self._cents(PartKind.INVOICE) * NANOUSD_PER_CENT

    @property
    def refunded_nanousd(self) -> int:
        return self._cents(PartKind.REFUND) * NANOUSD_PER_CENT

    @property
    def on_account_cents(self) -> int:
        gone = sum(each["amount_cents"] for each in self.parts)
        return int(self.payment["amount_cents"] - gone)

    @property
    def on_account_nanousd(self) -> int:
        return self.on_account_cents * NANOUSD_PER_CENT

    @property
    def is_reversed(self) -> bool:
        return any(each["kind"] == PartKind.REVERSAL for each in self.parts)

    def _cents(self, kind: PartKind) -> int:
        return sum(each["amount_cents"] for each in self.parts if each["kind"] == kind)


def pay(store: Store, receipt: Receipt, *, by: str, now_us: int) -> PaymentState:
    """Book money that came. Its invoice takes what is due, the rest is on account. The same again
    changes nothing. Raises BadPayment, NotPayable, PaymentConflict."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        before = rows.by_id(conn, receipt.payment_id)
        if before is not None:
            if not _is_same(before, receipt):
                raise PaymentConflict(f"{receipt.external_id!r} is another payment already")
            return _state(conn, before)
        if top_ups.by_id(conn, top_ups.id_of(receipt.payment_id)) is not None:
            raise PaymentConflict(f"{receipt.external_id!r} is a top-up already")
        invoice = None if receipt.invoice_id is None else _payable(conn, receipt.invoice_id)
        cents = _usd_cents(conn, receipt, invoice, now_us)
        payment = rows.insert_payment(conn, receipt, by, now_us, usd_cents=cents)
        event = received_event(receipt, receipt.payment_id, now_us, usd_cents=cents)
        outbox.tell(conn, event)
        if invoice is not None:
            _apply(conn, payment, cents, invoice, by, now_us)
        return _state(conn, payment)


def _usd_cents(conn: Connection, receipt: Receipt, invoice: Row | None, now_us: int) -> int:
    """What the money is in USD. The one other currency that an invoice is paid in is the one that
    it shows, at its rate. Raises BadPayment."""
    shown = None if invoice is None else invoices.conversion_of(invoice)
    check_receipt(receipt, now_us, currencies=(USD, shown.currency) if shown else (USD,))
    if invoice is None or shown is None or receipt.currency == USD:
        return receipt.amount_cents
    left_cents = invoices.left_cents(invoice)
    due_in_it = rows.tendered_due(conn, invoice["invoice_id"], shown, left_cents)
    cents = due_in_it.usd_cents(receipt.amount_cents)
    if not 0 < cents <= CENTS_MAX:
        raise BadPayment("amount", "it is less than a cent of USD, or more than the ledger holds")
    return cents


def check_receipt(receipt: Receipt, now_us: int, *, currencies: Collection[str] = (USD,)) -> None:
    """Whether the money can be booked. Raises BadPayment."""
    if receipt.received_us > now_us:
        raise BadPayment("received_at", "it is still to come")
    if receipt.currency not in currencies:
        raise BadPayment("currency", f"it is to be in {' or '.join(currencies)}")
    if receipt.amount_cents > CENTS_MAX:
        raise BadPayment("amount_usd", "it is more than the ledger can hold")


def is_booked(conn: Connection, receipt: Receipt) -> bool:
    return rows.by_id(conn, receipt.payment_id) is not None


def apply_balance(store: Store, invoice_id: str, *, by: str, now_us: int) -> None:
    """Pay what is due of an invoice from credit on account, the oldest payment first. Raises
    NotPayable."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        settle(conn, _payable(conn, invoice_id), by=by, now_us=now_us)


def settle(conn: Connection, invoice: Row, *, by: str, now_us: int) -> None:
    """The same inside the caller's transaction, which has the turn of RUN_LOCK. An invoice that is
    issued is settled at once. One below zero puts its credit on account instead."""
    left_cents = invoices.left_cents(invoice)
    if left_cents < 0:
        rows.insert_payment(conn, _credit(invoice, -left_cents, now_us), by, now_us)
        settle_open(conn, invoice["org"], by=by, now_us=now_us)
    if left_cents > 0:
        for payment, cents in rows.with_credit(conn, invoice["org"]):
            _apply(conn, payment, cents, invoice, by, now_us)


def settle_open(conn: Connection, org: str, *, by: str, now_us: int) -> None:
    """Pay all invoices that are issued, the oldest first."""
    for invoice in invoices.unpaid(conn, org):
        settle(conn, invoice, by=by, now_us=now_us)


def refund(
    store: Store,
    payment_id: str,
    cents: int | None,
    *,
    external_id: str,
    reason: str,
    by: str,
    now_us: int,
) -> PaymentState:
    """Give back what a payment has on account, or some of it, once by its external id. Raises
    UnknownPayment, PaymentConflict."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        state = _one(conn, payment_id)
        for part in state.parts:
            if part["kind"] == PartKind.REFUND and part["external_id"] == external_id:
                if cents not in (None, part["amount_cents"]):
                    raise PaymentConflict(f"{external_id!r} is another refund already")
                return state
        cents = cents or state.on_account_cents
        if not 0 < cents <= state.on_account_cents:
            raise PaymentConflict(f"{payment_id} has {state.on_account_cents} cents on account")
        words: Row = {"external_id": external_id, "reason": reason, "by": by, "now_us": now_us}
        rows.insert_part(conn, state.payment, PartKind.REFUND, cents, **words)
        return _one(conn, payment_id)


def reverse(store: Store, payment_id: str, *, reason: str, by: str, now_us: int) -> PaymentState:
    """Take back a payment that did not hold: its invoices are due again. Again changes nothing.
    Raises UnknownPayment, and PaymentConflict for the credit of a credit note."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        state = _one(conn, payment_id)
        if state.is_reversed:
            return state
        if state.payment["source"] == Source.CREDIT_NOTE:
            number = state.payment["external_id"]
            raise PaymentConflict(f"it is the credit of {number}: void that")
        words: Row = {"reason": reason, "by": by, "now_us": now_us}
        _unapply(conn, state.payment, words)
        left = _one(conn, payment_id).on_account_cents
        if left:
            rows.insert_part(conn, state.payment, PartKind.REVERSAL, left, **words)
        suspend_again(conn, state.payment["org"], now_us)
        return _one(conn, payment_id)


def free(
    conn: Connection,
    invoice_id: str,
    *,
    reason: str,
    by: str,
    now_us: int,
    cents: int | None = None,
) -> None:
    """Bring what an invoice has of payments, or so many cents of it, back on account, inside the
    caller's transaction."""
    words: Row = {"invoice_id": invoice_id, "reason": reason, "by": by, "now_us": now_us}
    for payment_id, _, taken_cents in rows.taken(conn, invoice_id=invoice_id):
        part = taken_cents if cents is None else min(taken_cents, cents)
        if part:
            payment = _one(conn, payment_id).payment
            rows.insert_part(conn, payment, PartKind.INVOICE, -part, **words)
        cents = None if cents is None else cents - part


def take_back_credit(
    conn: Connection, invoice_id: str, *, reason: str, by: str, now_us: int
) -> None:
    """Take what an invoice below zero gave from the account, inside the caller's transaction:
    invoices that it paid are due again. Raises PaymentConflict where some was refunded."""
    credit = rows.credit_of(conn, invoice_id)
    if credit is None:
        return
    if _state(conn, credit).refunded_nanousd:
        raise PaymentConflict(f"some of what it credited was refunded, by {credit['payment_id']}")
    words: Row = {"reason": reason, "by": by, "now_us": now_us}
    _unapply(conn, credit, words)
    part = {"invoice_id": invoice_id, **words}
    rows.insert_part(conn, credit, PartKind.INVOICE, credit["amount_cents"], **part)
    suspend_again(conn, credit["org"], now_us)


def list_payments(
    store: Store,
    *,
    org: str | None = None,
    invoice_id: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[PaymentState]:
    """The oldest first, from the one behind an instant and an id."""
    with store.read() as conn:
        found = rows.find(conn, org=org, invoice_id=invoice_id, after=after, limit=limit)
        return [_state(conn, payment) for payment in found]


def _apply(
    conn: Connection, payment: Row, left_cents: int, invoice: Row, by: str, now_us: int
) -> None:
    invoice_id = invoice["invoice_id"]
    paid = rows.paid_cents(conn, invoice_id)
    credited = invoices.credited_cents(invoice)
    due_cents = due(invoices.payable_cents(invoice), paid=paid, credited=credited)
    cents = applied_cents(left_cents, due_cents)
    if cents:
        words: dict[str, Any] = {"invoice_id": invoice_id, "by": by, "now_us": now_us}
        rows.insert_part(conn, payment, PartKind.INVOICE, cents, **words)
        lift(conn, invoice["org"], now_us)
        if cents == due_cents:
            turn = payment["payment_id"]
            tell_of_invoice(conn, EventType.INVOICE_PAID, invoice, now_us, turn)


def _credit(invoice: Row, cents: int, now_us: int) -> Receipt:
    return Receipt(
        org=invoice["org"],
        external_id=invoices.number_of(invoice) or "",
        amount_cents=cents,
        received_us=now_us,
        source=Source.CREDIT_NOTE,
        currency=invoice["currency"],
        invoice_id=invoice["invoice_id"],
    )


def _unapply(conn: Connection, payment: Row, words: Row) -> None:
    """Bring what invoices have of a payment back on account."""
    for _, invoice_id, cents in rows.taken(conn, payment_id=payment["payment_id"]):
        part = {"invoice_id": invoice_id, **words}
        rows.insert_part(conn, payment, PartKind.INVOICE, -cents, **part)


def _payable(conn: Connection, invoice_id: str) -> Row:
    invoice = invoices.by_id(conn, invoice_id)
    if invoice is None:
        raise invoices.UnknownInvoice(invoice_id)
    if invoice["status"] != "finalised":
        raise NotPayable("invoice_not_issued", f"{invoice_id} is a draft: it has no number")
    if invoice["voided_us"] is not None:
        raise NotPayable("invoice_void", f"{invoice_id} is void: nothing is due by it")
    return invoice


def received_event(
    receipt: Receipt,
    object_id: str,
    now_us: int,
    *,
    number: str | None = None,
    usd_cents: int | None = None,
) -> OutboxEvent:
    """What receivers hear of money that came. `number` is that of the receipt of a top-up,
    `usd_cents` what money of another currency was booked as."""
    cents = receipt.amount_cents if usd_cents is None else usd_cents
    amount = usd(receipt.amount_cents * NANOUSD_PER_CENT)
    tendered = {"tendered": {"currency": receipt.currency, "amount": amount}}
    data = {
        "id": object_id,
        "organization": receipt.org,
        "external_id": receipt.external_id,
        "invoice": receipt.invoice_id,
        "currency": USD,
        "amount_usd": usd(cents * NANOUSD_PER_CENT),
        **({} if receipt.currency == USD else tendered),
        **({} if number is None else {"receipt": number}),
    }
    return OutboxEvent(EventType.PAYMENT_RECEIVED, receipt.org, object_id, data, now_us)


def _is_same(before: Row, receipt: Receipt) -> bool:
    told = before["amount_cents"], before["currency"]
    if before["tendered_currency"] is not None:
        told = before["tendered_cents"], before["tendered_currency"]
    return (*told, before["invoice_id"]) == (
        receipt.amount_cents,
        receipt.currency,
        receipt.invoice_id,
    )


def _one(conn: Connection, payment_id: str) -> PaymentState:
    payment = rows.by_id(conn, payment_id)
    if payment is None:
        raise UnknownPayment(payment_id)
    return _state(conn, payment)


def _state(conn: Connection, payment: Row) -> PaymentState:
    return PaymentState(payment, tuple(rows.parts(conn, payment["payment_id"])))
