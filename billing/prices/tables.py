"""Rows of the price book: versions with their rates and discounts."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    CheckConstraint,
    UniqueConstraint,
)
from sqlmodel import Field, SQLModel


class PriceVersionRow(SQLModel, table=True):
    """A version of the price book. A draft may change, an approved one waits for its instant, an
    active one has it. `org` is "" where the version holds for everybody. Triggers guard the order.
    """

    __tablename__ = "price_version"
    __table_args__ = (
        UniqueConstraint("org", "effective_from_us", name="price_version_begins_once"),
        CheckConstraint(
            "(status = 'draft' AND approved_us IS NULL AND effective_from_us IS NULL) OR "
            "(status = 'approved' AND approved_us IS NOT NULL AND effective_from_us IS NULL) OR "
            "(status = 'active' AND approved_us IS NOT NULL AND effective_from_us IS NOT NULL)",
            name="approved_then_active",
        ),
    )
    version_id: str = Field(primary_key=True)
    org: str = ""
    status: str
    effective_from_us: int | None = Field(None, sa_type=Big)
    created_us: int = Field(sa_type=Big)
    created_by: str
    approved_us: int | None = Field(None, sa_type=Big)
    approved_by: str | None = None
    activated_by: str | None = None
    note: str = ""


class PriceRateRow(SQLModel, table=True):
    """Nano-USD per million units of one component, for prompts of `prompt_from` tokens and more."""

    __tablename__ = "price_rate"
    __table_args__ = (
        CheckConstraint("nanousd_per_mtok >= 0 AND prompt_from >= 0", name="price_not_negative"),
        CheckConstraint("(component = 'gpu_ms') = (units_max IS NOT NULL)", name="gpu_ms_bounded"),
    )
    version_id: str = Field(primary_key=True, foreign_key="price_version.version_id")
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    component: str = Field(primary_key=True)
    prompt_from: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    nanousd_per_mtok: int = Field(sa_type=Big)
    units_max: int | None = Field(None, sa_type=Big)


class PriceDiscountRow(SQLModel, table=True):
    """A discount off everybody's prices, for the organization of a version. `model` "" is every
    other model."""

    __tablename__ = "price_discount"
    __table_args__ = (
        CheckConstraint("basis_points >= 0 AND basis_points <= 10000", name="part_of_the_price"),
    )
    version_id: str = Field(primary_key=True, foreign_key="price_version.version_id")
    model: str = Field(primary_key=True)
    basis_points: int
