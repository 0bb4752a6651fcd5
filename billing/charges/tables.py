"""Rows of charges: their sums by organization and month, of which invoices are made."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import Index
from sqlmodel import Field, SQLModel


class ChargeSum(SQLModel, table=True):
    """What the charges, reversals or burns of an organization's month sum to, by all that an
    invoice line shows. `kind` is that of the line. The row is a copy that `verify` recomputes."""

    __tablename__ = "charge_sum"
    __table_args__ = ({"sqlite_with_rowid": False},)
    org: str = Field(primary_key=True)
    service_start_us: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    kind: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    component: str = Field(primary_key=True)
    price_version: str = Field(primary_key=True)
    unit_price_nanousd_per_mtok: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    grant_id: str = Field(primary_key=True)
    is_simulated: bool = Field(primary_key=True)
    quantity: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)
    transfers: int = Field(sa_type=Big)
    """How many transfers have a part in the amount."""


class ChargeMonth(SQLModel, table=True):
    """The newest place in booking order of the transfers in a month of an organization. A place is
    the `created_us` of a transfer: a later booking has a later one, in whatever process."""

    __tablename__ = "charge_month"
    __table_args__ = (Index("charge_month_moved", "moved_us"),)
    org: str = Field(primary_key=True)
    service_start_us: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    moved_us: int = Field(sa_type=Big)
