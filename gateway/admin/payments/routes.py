"""`/admin/v1/payments` and `/admin/v1/invoices/{invoice}/pay`: money that came, and where it
went."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from gateway.admin.invoices.schemas import Invoice
from gateway.admin.payments.schemas import (
    ImportAnswer,
    ImportBody,
    PayBody,
    PaymentAnswer,
    RefundBody,
    ReverseBody,
    SecretAnswer,
    SecretBody,
)
from gateway.admin.payments.service import Payments
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label

router = APIRouter(tags=["payments"])

PaymentId = Annotated[str, Path(max_length=64)]
InvoiceName = Annotated[str, Path(max_length=64, description="its id, or its number")]


@router.post("/invoices/{invoice}/pay", response_model=Invoice)
async def pay_invoice(payments: Payments, invoice: InvoiceName, body: PayBody) -> Any:
    """The invoice with the payment. What is above what is due becomes credit on account. The same
    `external_id` again changes nothing; with another amount it is 409."""
    return await payments.pay(invoice, body)


@router.post("/invoices/{invoice}/apply-balance", response_model=Invoice)
async def apply_balance(payments: Payments, invoice: InvoiceName) -> Any:
    """Pay what is due from the organization's credit on account, the oldest payment first. What one
    below zero credits goes on account, once, and pays what is open."""
    return await payments.apply_balance(invoice)


@router.get("/payments", response_model=Page[PaymentAnswer])
async def list_payments(
    payments: Payments,
    request: Paged,
    organization: Label | None = None,
    invoice: Label | None = None,
) -> Any:
    """The oldest first. `invoice` is the id of one that was paid by them."""
    return await payments.page(request, organization, invoice)


@router.post("/payments/import", response_model=ImportAnswer)
async def import_payments(payments: Payments, body: ImportBody) -> Any:
    """A row of a bank's file pays the invoice whose number is in its text, or tops up the
    organization whose id stands there behind TOP-UP. The same row again changes nothing. What a
    person must look at is `unmatched`."""
    return await payments.import_file(body)


@router.post("/payments/{payment_id}/refund", response_model=PaymentAnswer)
async def refund_payment(payments: Payments, payment_id: PaymentId, body: RefundBody) -> Any:
    """Give back what it has on account. More than that is 409."""
    return await payments.refund(payment_id, body)


@router.post("/payments/{payment_id}/reverse", response_model=PaymentAnswer)
async def reverse_payment(payments: Payments, payment_id: PaymentId, body: ReverseBody) -> Any:
    """It did not hold: its invoices are due again. Again changes nothing. The credit of an invoice
    below zero is 409: that is voided."""
    return await payments.reverse(payment_id, body)


@router.put("/sellers/{seller_id}/payment-secret", response_model=SecretAnswer)
async def put_payment_secret(payments: Payments, seller_id: PaymentId, body: SecretBody) -> Any:
    """By it `POST /v1/webhooks/payments/{seller}` is signed, as Stripe signs."""
    return await payments.put_secret(seller_id, body)
