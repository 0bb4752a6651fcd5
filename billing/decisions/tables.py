"""Rows of what decisions were made from: bodies of many records, and where each record stands.

They explain and hold no money. A record that is lost is an explanation that is lost.
"""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import Index, LargeBinary
from sqlmodel import Field, SQLModel

from billing.db.columns import SERIAL


class DecisionBatchRow(SQLModel, table=True):
    """Records of one gateway (`billing.decisions.batch`), decided in [from, until]. Once it is
    thinned, the sample of them."""

    __tablename__ = "decision_batch"
    __table_args__ = (
        Index("decision_batch_until", "until_us"),
        Index("decision_batch_full", "is_thinned", "until_us"),
        Index("decision_batch_gateway", "gateway", "id"),
    )
    id: int | None = Field(None, primary_key=True, sa_type=SERIAL)
    gateway: str
    from_us: int = Field(sa_type=Big)
    until_us: int = Field(sa_type=Big)
    decisions: int
    is_thinned: bool = False
    size_bytes: int = Field(sa_type=Big)
    body: bytes = Field(sa_type=LargeBinary)


class DecisionPlaceRow(SQLModel, table=True):
    """The batch that has the record of a call."""

    __tablename__ = "decision_place"
    __table_args__ = ({"sqlite_with_rowid": False},)
    rid: str = Field(primary_key=True)
    batch: int = Field(sa_type=Big)
