"""Rows of credits: grants, where organizations stand with them, and their alerts."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Index,
)
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel

from billing.db.columns import SERIAL


class CreditGrant(SQLModel, table=True):
    """Money that an organization may use up, on an account of its own. The row is insert-only by
    triggers. The account of a grant is never debited more than credited."""

    __tablename__ = "credit_grant"
    __table_args__ = (
        CheckConstraint("category IN ('paid','promotional')", name="category_known"),
        CheckConstraint("amount_nanousd > 0", name="grant_positive"),
        CheckConstraint("priority >= 0 AND priority <= 100", name="priority_bounded"),
        CheckConstraint("expires_us > effective_us", name="ends_after_it_begins"),
        Index("credit_grant_org", "org", "created_us"),
    )
    grant_id: str = Field(primary_key=True)
    org: str
    category: str
    amount_nanousd: int = Field(sa_type=Big)
    priority: int
    effective_us: int = Field(sa_type=Big)
    expires_us: int | None = Field(None, sa_type=Big)
    models: list[str] = Field(sa_type=JSON)
    created_us: int = Field(sa_type=Big)
    created_by: str
    note: str = ""


class CreditVoid(SQLModel, table=True):
    """The instant from which a grant pays for no new call. The row is insert-only by triggers."""

    __tablename__ = "credit_void"
    grant_id: str = Field(primary_key=True, foreign_key="credit_grant.grant_id")
    voided_us: int = Field(sa_type=Big)
    voided_by: str


class CreditStanding(SQLModel, table=True):
    """The standing of an organization with credits. `cleared_nanousd` is what it ever spent less
    what it owes, a copy that `verify` recomputes. `moved_us` is the time of the last movement of
    its credits. The clock of `moved_us` is the organization's own, and never stands still nor goes
    back."""

    __tablename__ = "credit_standing"
    __table_args__ = (Index("credit_standing_moved", "moved_us"),)
    org: str = Field(primary_key=True)
    cleared_nanousd: int = Field(sa_type=Big)
    moved_us: int = Field(sa_type=Big)


class CreditWatch(SQLModel, table=True):
    """The amounts below which an organization wants an alert, and its credit when that was last
    looked at (see billing/credits/watch.py)."""

    __tablename__ = "credit_watch"
    org: str = Field(primary_key=True)
    thresholds: list[list[Any]] = Field(sa_type=JSON)
    granted_nanousd: int = Field(sa_type=Big)
    left_nanousd: int = Field(sa_type=Big)
    below: list[list[Any]] = Field(sa_type=JSON)


class CreditAlert(SQLModel, table=True):
    """The credit of an organization fell below a threshold. There is one row for each fall."""

    __tablename__ = "credit_alert"
    __table_args__ = (
        CheckConstraint("unit IN ('nanousd','percent')", name="unit_known"),
        Index("credit_alert_raised", "raised_us"),
        Index("credit_alert_org", "org", "raised_us"),
    )
    id: int | None = Field(None, primary_key=True, sa_type=SERIAL)
    org: str
    unit: str
    threshold: int = Field(sa_type=Big)
    limit_nanousd: int = Field(sa_type=Big)
    left_nanousd: int = Field(sa_type=Big)
    granted_nanousd: int = Field(sa_type=Big)
    raised_us: int = Field(sa_type=Big)
