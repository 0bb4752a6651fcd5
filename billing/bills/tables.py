"""Rows of providers' bills that were reconciled, and what each day and model of them came to. No
row ever changes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, ForeignKeyConstraint
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class ProviderBillRow(SQLModel, table=True):
    """A file, by the SHA-256 of its text: it is posted once. Amounts are nano-USD."""

    __tablename__ = "provider_bill"
    provider: str = Field(primary_key=True)
    sha256: str = Field(primary_key=True)
    first_day: str
    last_day: str
    billed_nanousd: int = Field(sa_type=Big)
    booked_nanousd: int = Field(sa_type=Big)
    variance_nanousd: int = Field(sa_type=Big)
    posted_us: int = Field(sa_type=Big)
    posted_by: str


class ProviderBillLineRow(SQLModel, table=True):
    """One day and model. `posted_nanousd` is what earlier bills had posted for them."""

    __tablename__ = "provider_bill_line"
    __table_args__ = (
        ForeignKeyConstraint(
            ["provider", "sha256"], ["provider_bill.provider", "provider_bill.sha256"]
        ),
    )
    provider: str = Field(primary_key=True)
    sha256: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    billed_nanousd: int = Field(sa_type=Big)
    booked_nanousd: int = Field(sa_type=Big)
    posted_nanousd: int = Field(sa_type=Big)
    variance_nanousd: int = Field(sa_type=Big)
    classes: list[dict[str, Any]] = Field(sa_type=JSON)
