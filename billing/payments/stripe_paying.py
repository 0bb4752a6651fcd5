"""Payments that a seller's payment service tells, each once by its external id."""

from __future__ import annotations

from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.payments.paying import PaymentState, pay
from billing.payments.payment import BadPayment, Receipt, Source
from billing.payments.signing_secrets import secret_of
from billing.payments.stripe_event import BadSignature, check_signature, payment_of

BY = "stripe"


def book_event(
    store: Store, seller: str, signature: str, body: bytes, now_s: float
) -> PaymentState | None:
    """The payment of an event; None for one that is no payment. Raises BadSignature, BadEvent,
    BadPayment, NotPayable, PaymentConflict."""
    secret = secret_of(store, seller)
    if secret is None:
        raise BadSignature("nothing is signed for this seller")
    check_signature(signature, body, secret, now_s)
    payment = payment_of(body)
    if payment is None:
        return None
    with store.read() as conn:
        invoice = invoices.by_id(conn, payment.invoice) or invoices.by_number(conn, payment.invoice)
        issued = invoices.parties_of(conn, invoice["invoice_id"]) if invoice else None
    if invoice is None or (issued and issued.seller.seller_id != seller):
        raise BadPayment("metadata.invoice", "it names no invoice of this seller")
    now_us = int(now_s * 1_000_000)
    receipt = Receipt(
        org=invoice["org"],
        external_id=payment.external_id,
        amount_cents=payment.amount_cents,
        received_us=now_us,
        source=Source.STRIPE,
        currency=payment.currency,
        invoice_id=invoice["invoice_id"],
    )
    return pay(store, receipt, by=BY, now_us=now_us)
