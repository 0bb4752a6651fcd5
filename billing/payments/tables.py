"""Rows of payments: what came in, and which part of it went where. Both are insert-only."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field, SQLModel


class Payment(SQLModel, table=True):
    """Money that came in, or the credit of an invoice below zero. Its id is of the organization and
    the external id."""

    __tablename__ = "payment"
    __table_args__ = (
        CheckConstraint("amount_cents > 0", name="payment_positive"),
        Index("payment_org", "org"),
        Index("payment_invoice", "invoice_id"),
    )
    payment_id: str = Field(primary_key=True)
    org: str
    external_id: str
    source: str
    invoice_id: str | None = Field(None, foreign_key="invoice.invoice_id")
    amount_cents: int = Field(sa_type=Big)
    currency: str = "USD"
    received_us: int = Field(sa_type=Big)
    note: str = ""
    created_by: str
    created_us: int = Field(sa_type=Big)
    tendered_currency: str | None = None
    """In which it came, where that was not USD, with how much of it."""
    tendered_cents: int | None = Field(None, sa_type=Big)


class PaymentPart(SQLModel, table=True):
    """Cents of a payment that an invoice took (below zero: gave back), or that left again."""

    __tablename__ = "payment_part"
    __table_args__ = (
        CheckConstraint("kind IN ('invoice','refund','reversal')", name="part_known"),
        CheckConstraint("(kind = 'invoice') = (invoice_id IS NOT NULL)", name="part_of_invoice"),
        CheckConstraint("amount_cents <> 0", name="part_moves"),
        Index("payment_part_invoice", "invoice_id"),
    )
    payment_id: str = Field(primary_key=True, foreign_key="payment.payment_id")
    n: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    invoice_id: str | None = Field(None, foreign_key="invoice.invoice_id")
    amount_cents: int = Field(sa_type=Big)
    external_id: str = ""
    reason: str = ""
    created_by: str
    created_us: int = Field(sa_type=Big)


class PaymentSecret(SQLModel, table=True):
    """By which a seller's payment service signs what it tells."""

    __tablename__ = "payment_secret"
    seller: str = Field(primary_key=True, foreign_key="seller.seller_id")
    secret: str
    changed_us: int = Field(sa_type=Big)
