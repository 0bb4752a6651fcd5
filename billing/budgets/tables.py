"""The rows of budgets: what they are, what counts against them, and their alerts."""

from __future__ import annotations

from sqlalchemy import JSON, CheckConstraint, Index
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class BudgetRow(SQLModel, table=True):
    """One budget of an owner (`org:`, `project:` or `key:`) or of its end users. `end_user` is ""
    where the budget binds none of them, and `*` where it binds each. The digest of such a user is
    the subject of what counts. The window of a budget never changes."""

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
    """The sum of the best records of the calls in one bucket. A bucket is a period of a calendar,
    or a part of a rolling span. `until_us` is when the bucket ceases to count (0: never). The row
    is a copy of what the events say, and `verify` recomputes it."""

    __tablename__ = "budget_spent"
    __table_args__ = (Index("budget_spent_until", "until_us"), {"sqlite_with_rowid": False})
    budget_id: str = Field(primary_key=True)
    subject: str = Field(primary_key=True)
    bucket_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    until_us: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)


class UsageBudget(SQLModel, table=True):
    """A call counts against a budget, in the bucket of the call's first record."""

    __tablename__ = "usage_budget"
    __table_args__ = ({"sqlite_with_rowid": False},)
    rid: str = Field(primary_key=True)
    budget_id: str = Field(primary_key=True)
    subject: str
    bucket_us: int = Field(sa_type=Big)


class BudgetAlert(SQLModel, table=True):
    """A budget reached a percentage of its amount. There is one such row in a period, or in a
    rolling span."""

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
