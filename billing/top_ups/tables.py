"""Rows of top-ups: money that became credit, and what was given back of it. Both are insert-only.

The grant of a top-up has its id.
"""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field, SQLModel


class TopUp(SQLModel, table=True):
    """Money that came for no invoice, and the number of its receipt."""

    __tablename__ = "top_up"
    __table_args__ = (
        CheckConstraint("amount_cents > 0", name="top_up_positive"),
        Index("top_up_org", "org", "created_us"),
        Index("top_up_number", "series", "number", unique=True),
    )
    top_up_id: str = Field(primary_key=True, foreign_key="credit_grant.grant_id")
    org: str
    external_id: str
    source: str
    amount_cents: int = Field(sa_type=Big)
    currency: str = "USD"
    received_us: int = Field(sa_type=Big)
    note: str = ""
    series: str
    number: int
    created_by: str
    created_us: int = Field(sa_type=Big)


class TopUpRefund(SQLModel, table=True):
    """Cents of a top-up that no call had used, and that went back."""

    __tablename__ = "top_up_refund"
    __table_args__ = (
        CheckConstraint("amount_cents > 0", name="top_up_refund_positive"),
        Index("top_up_refund_name", "top_up_id", "external_id", unique=True),
    )
    top_up_id: str = Field(primary_key=True, foreign_key="top_up.top_up_id")
    n: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    amount_cents: int = Field(sa_type=Big)
    external_id: str
    reason: str
    created_by: str
    created_us: int = Field(sa_type=Big)
