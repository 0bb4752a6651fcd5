"""Payments and top-ups that a seller's payment service tells, each once by its external id."""

from __future__ import annotations

from typing import NamedTuple

from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.invoices.guards import GUARDS, Guards
from billing.parties import store as parties
from billing.payments.paying import pay
from billing.payments.payment import BadPayment, Receipt, Source
from billing.payments.signing_secrets import secret_of
from billing.payments.stripe_event import BadSignature, StripePayment, check_signature, payment_of
from billing.top_ups.topping_up import top_up

BY = "stripe"


class BookedEvent(NamedTuple):
    """What an event became: the id of a payment, or of a top-up of an organization."""

    payment_id: str | None = None
    top_up_id: str | None = None
    topped_up: str | None = None


def book_event(
    store: Store,
    seller: str,
    signature: str,
    body: bytes,
    now_s: float,
    guards: Guards = GUARDS,
) -> BookedEvent | None:
    """None for an event that is no payment. Raises BadSignature, BadEvent, BadPayment, NotPayable,
    PaymentConflict."""
    secret = secret_of(store, seller)
    if secret is None:
        raise BadSignature("nothing is signed for this seller")
    check_signature(signature, body, secret, now_s)
    payment = payment_of(body)
    if payment is None:
        return None
    now_us = int(now_s * 1_000_000)
    if payment.organization:
        return _topped_up(store, seller, payment, now_us, guards)
    with store.read() as conn:
        invoice = invoices.by_id(conn, payment.invoice) or invoices.by_number(conn, payment.invoice)
        issued = invoices.parties_of(conn, invoice["invoice_id"]) if invoice else None
    if invoice is None or (issued and issued.seller.seller_id != seller):
        raise BadPayment("metadata.invoice", "it names no invoice of this seller")
    receipt = _receipt(payment, invoice["org"], invoice["invoice_id"], now_us)
    state = pay(store, receipt, by=BY, now_us=now_us)
    return BookedEvent(payment_id=state.payment["payment_id"])


def _topped_up(
    store: Store, seller: str, payment: StripePayment, now_us: int, guards: Guards
) -> BookedEvent:
    org = payment.organization
    profile = parties.profile(store, org)
    if profile is None or profile.seller != seller:
        raise BadPayment("metadata.organization", "it names no organization that this seller bills")
    receipt = _receipt(payment, org, None, now_us)
    state, _ = top_up(store, receipt, by=BY, now_us=now_us, guards=guards)
    return BookedEvent(top_up_id=state.top_up["top_up_id"], topped_up=org)


def _receipt(payment: StripePayment, org: str, invoice_id: str | None, now_us: int) -> Receipt:
    return Receipt(
        org=org,
        external_id=payment.external_id,
        amount_cents=payment.amount_cents,
        received_us=now_us,
        source=Source.STRIPE,
        currency=payment.currency,
        invoice_id=invoice_id,
    )
