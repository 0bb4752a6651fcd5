"""Rows of answers about VAT ids."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class VatCheckRow(SQLModel, table=True):
    """What was said of a VAT id at an instant, to whom, and under which number. It never
    changes."""

    __tablename__ = "vat_check"
    vat_id: str = Field(primary_key=True)
    checked_us: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    requester: str
    is_valid: bool
    consultation: str
