"""The rows of confirmed spool segments."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    LargeBinary,
)
from sqlmodel import Field, SQLModel


class SpoolSegment(SQLModel, table=True):
    """The contents of one spool file of one gateway, so that nothing admitted can go missing."""

    __tablename__ = "spool_segment"
    gateway: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    opened_count: int
    closed_count: int
    size_bytes: int = Field(sa_type=Big)
    sha: bytes = Field(sa_type=LargeBinary)
    seen_us: int = Field(sa_type=Big)
