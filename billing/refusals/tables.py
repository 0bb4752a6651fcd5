"""Rows of refused calls, for a time. They explain and hold no money."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import Index, text
from sqlmodel import Field, SQLModel

HAS_CANARY = text("is_canary IS NOT NULL")


class RefusalRow(SQLModel, table=True):
    """As `billing.refusals.refusal.Refusal`."""

    __tablename__ = "refusal"
    __table_args__ = (
        Index("refusal_at", "at_us", "rid"),
        Index("refusal_org", "org", "at_us", "rid"),
        Index(
            "refusal_canary",
            "policy_revision",
            "at_us",
            sqlite_where=HAS_CANARY,
            postgresql_where=HAS_CANARY,
        ),
    )
    rid: str = Field(primary_key=True)
    at_us: int = Field(sa_type=Big)
    until_us: int = Field(sa_type=Big)
    calls: int
    org: str
    project: str
    key: str
    model: str
    tier: str
    rule: str
    policy_revision: int
    is_canary: bool | None = None
    reason: str
    error_code: str
    message: str
    retry_after_s: float | None = None
