"""Rows of parties and tax rules. What documents need of a party is one JSON value."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint, false, text
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class SellerRow(SQLModel, table=True):
    """A seller. No two have one series of numbers."""

    __tablename__ = "seller"
    seller_id: str = Field(primary_key=True)
    series: str = Field(unique=True)
    details: dict[str, Any] = Field(sa_type=JSON)
    changed_us: int = Field(sa_type=Big)


class BillingProfileRow(SQLModel, table=True):
    """How an organization is billed."""

    __tablename__ = "billing_profile"
    org: str = Field(primary_key=True)
    seller: str = Field(foreign_key="seller.seller_id")
    details: dict[str, Any] = Field(sa_type=JSON)
    changed_us: int = Field(sa_type=Big)


class TaxRuleRow(SQLModel, table=True):
    """A tax that holds in [from_us, to_us) for whom it says; "" is everybody."""

    __tablename__ = "tax_rule"
    __table_args__ = (
        CheckConstraint("category IN ('S','Z','E','AE','G','O')", name="tax_category_known"),
        CheckConstraint("rate_ppm >= 0 AND rate_ppm <= 1000000", name="tax_rate_bounded"),
    )
    rule_id: str = Field(primary_key=True)
    category: str
    from_us: int = Field(sa_type=Big)
    to_us: int | None = Field(None, sa_type=Big)
    seller: str = ""
    buyer_country: str = ""
    buyer_region: str = ""
    buyer_city: str = Field("", sa_column_kwargs={"server_default": text("''")})
    buyer_postal_codes: list[str] = Field(
        [], sa_type=JSON, sa_column_kwargs={"server_default": text("'[]'")}
    )
    """What they begin with; none is everywhere."""
    buyer_kind: str = ""
    jurisdiction: str = Field("", sa_column_kwargs={"server_default": text("''")})
    """Rules of several jurisdictions add up."""
    level: str = Field("", sa_column_kwargs={"server_default": text("''")})
    needs_exemption: bool = Field(False, sa_column_kwargs={"server_default": false()})
    rate_ppm: int = 0
    reason_code: str = ""
    note: str = ""
    changed_us: int = Field(sa_type=Big)
