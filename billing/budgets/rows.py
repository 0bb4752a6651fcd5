"""The rows of budgets: what they are, what counts against them, and their alerts."""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, Index
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class BudgetRow(SQLModel, table=True):
    """One budget of an owner (`org:`, `project:` or `key:`), or of its end users: "" is none, `*`
    each of them, whose digest is then the subject of what counts. Its window never changes."""

    __tablename__ = "budget"
    __table_args__ = (
        CheckConstraint("amount_nanousd >= 0", name="budget_not_negative"),
        CheckConstraint(
            "(\"window\" = 'rolling') = (span_s IS NOT NULL) AND "
            "(\"window\" IN ('day','week','month','year')) = (zone IS NOT NULL) AND "
            "(zone IS NULL) = (anchor IS NULL) AND "
            "\"window\" IN ('total','rolling','day','week','month','year')",
            name="budget_window_whole",
        ),
        Index("budget_owner", "owner"),
        Index("budget_org", "org"),
    )
    budget_id: str = Field(primary_key=True)
    org: str
    owner: str
    end_user: str = ""
    subject: str = ""
    name: str
    amount_nanousd: int = Field(sa_type=Big)
    is_hard: bool
    window: str
    zone: str | None = None
    anchor: str | None = None
    span_s: int | None = Field(None, sa_type=Big)
    alert_percents: list[int] = Field(default_factory=list, sa_type=JSON)
    created_us: int = Field(sa_type=Big)
    ended_us: int | None = Field(None, sa_type=Big)


class BudgetSpent(SQLModel, table=True):
    """What the best records of the calls of one bucket sum to: of a calendar a period, of a rolling
    span a part of it. `until_us` is when it may still count (0: for ever). A copy of what the
    events say, which `verify` recomputes."""

    __tablename__ = "budget_spent"
    __table_args__ = (Index("budget_spent_until", "until_us"), {"sqlite_with_rowid": False})
    budget_id: str = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    bucket_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    until_us: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)


class UsageBudget(SQLModel, table=True):
    """A call counts against a budget, in the bucket of its first record."""

    __tablename__ = "usage_budget"
    __table_args__ = ({"sqlite_with_rowid": False},)
    rid: str = Field(primary_key=True)
    budget_id: str = Field(primary_key=True)
    subject: str
    bucket_us: int = Field(sa_type=Big)


class BudgetAlert(SQLModel, table=True):
    """A budget reached a percentage of its amount: once in a period, or in a rolling span."""

    __tablename__ = "budget_alert"
    __table_args__ = (
        Index("budget_alert_raised", "raised_us"),
        Index("budget_alert_org", "org", "raised_us"),
    )
    budget_id: str = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    bucket_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    percent: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    org: str
    spent_nanousd: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)
    raised_us: int = Field(sa_type=Big)
