"""The rows of calls that are open."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    Index,
    Text,
    text,
)
from sqlmodel import Field, SQLModel

UNDER_A_KEY = text("idempotency IS NOT NULL")


class OpenHold(SQLModel, table=True):
    """A call that was admitted and not yet settled when the writer read it. `idempotency` is the
    digest of its `Idempotency-Key`, if it has one."""

    __tablename__ = "open_hold"
    __table_args__ = (
        Index("open_hold_admitted", "admitted_us"),
        Index(
            "open_hold_idempotency",
            *("key", "idempotency"),
            sqlite_where=UNDER_A_KEY,
            postgresql_where=UNDER_A_KEY,
        ),
    )
    rid: str = Field(primary_key=True)
    org: str
    project: str
    key: str
    hold_nanousd: int = Field(sa_type=Big)
    month: str
    admitted_us: int = Field(sa_type=Big)
    opened: str = Field(sa_type=Text)
    idempotency: str | None = None
