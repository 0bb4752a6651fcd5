"""Rows of exchange rates. A document that is issued keeps its own."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import CheckConstraint
from sqlmodel import Field, SQLModel


class ExchangeRateRow(SQLModel, table=True):
    """How much of a currency a USD is on a day, `YYYY-MM-DD`."""

    __tablename__ = "exchange_rate"
    __table_args__ = (CheckConstraint("nano_per_usd > 0", name="exchange_rate_positive"),)
    currency: str = Field(primary_key=True)
    day: str = Field(primary_key=True)
    nano_per_usd: int = Field(sa_type=Big)
    source: str
    set_by: str
    set_us: int = Field(sa_type=Big)
