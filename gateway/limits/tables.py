"""Rows of limits of organizations, projects and keys."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import CheckConstraint
from sqlmodel import Field, SQLModel

from gateway.limits.limit import LimitFields, OwnerLimitFields


class Limits(OwnerLimitFields, table=True):
    """Limits and budget of one scope: `key:<id>`, `project:<id>` or `org:<id>`."""

    __tablename__ = "limits"
    __table_args__ = (
        CheckConstraint("budget_window IN ('total','month')", name="budget_window_known"),
    )
    scope: str = Field(primary_key=True)


class NarrowLimits(LimitFields, table=True):
    """Limits that one model, one end user or (`*`) every end user has within an owner's scope.

    An end user with a row of its own is not under that of every end user.
    """

    __tablename__ = "narrow_limits"
    __table_args__ = (CheckConstraint("kind IN ('model','user')", name="narrow_kind_known"),)
    owner: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)

    @property
    def scope(self) -> str:
        return f"{self.owner}/{self.kind}:{self.name}"


class OutageRow(SQLModel, table=True):
    """What an organization wants while Redis is away: `local` limits, owing at most the cap to each
    gateway, or to be denied."""

    __tablename__ = "outage"
    __table_args__ = (
        CheckConstraint("mode IN ('local','deny')", name="outage_mode_known"),
        CheckConstraint("mode = 'deny' OR cap_nanousd IS NOT NULL", name="outage_local_capped"),
    )
    org_id: str = Field(primary_key=True, foreign_key="organization.id")
    mode: str
    cap_nanousd: int | None = Field(default=None, sa_type=Big)
