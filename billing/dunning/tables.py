"""Rows of dunning: which step was taken of which invoice. Insert-only."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class DunningStepRow(SQLModel, table=True):
    """A step that was taken. `left_cents` is what was due then."""

    __tablename__ = "dunning_step"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    step: str = Field(primary_key=True)
    left_cents: int = Field(sa_type=Big)
    taken_us: int = Field(sa_type=Big)
