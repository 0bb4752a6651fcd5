"""Rows of what calls and capacity cost us."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    CheckConstraint,
    Index,
    text,
)
from sqlmodel import Field, SQLModel

from billing.types import AttemptKind
from billing.usage.tables import TokenCounts

WAS_MOVED = text("outcome = 'moved'")
BOUGHT = text("bought_nanousd <> 0")


class AttemptRow(TokenCounts, table=True):
    """One try of a call on one replica. It is part of our cost, never a usage event. `served` marks
    the attempt whose cost is the call's."""

    __tablename__ = "attempt"
    __table_args__ = (
        Index("attempt_moved", "started_us", sqlite_where=WAS_MOVED, postgresql_where=WAS_MOVED),
        Index("attempt_bought", "started_us", sqlite_where=BOUGHT, postgresql_where=BOUGHT),
    )
    rid: str = Field(primary_key=True)
    n: int = Field(primary_key=True)
    pool: str
    replica: str
    started_us: int = Field(sa_type=Big)
    ended_us: int | None = Field(None, sa_type=Big)
    outcome: str
    model: str = ""
    kind: str = AttemptKind.FIRST
    busy_us: int = Field(0, sa_type=Big)
    nanousd_per_s: int = Field(0, sa_type=Big)
    input_nanousd_per_mtok: int = Field(0, sa_type=Big)
    output_nanousd_per_mtok: int = Field(0, sa_type=Big)
    cached_input_nanousd_per_mtok: int | None = Field(None, sa_type=Big)
    units: int = Field(0, sa_type=Big)
    nanousd_per_unit: int = Field(0, sa_type=Big)
    cost_nanousd: int = Field(0, sa_type=Big)
    bought_nanousd: int = Field(0, sa_type=Big)
    served: bool = False
    status: int | None = None
    detail: str | None = None


class LifeReportRow(SQLModel, table=True):
    """What was known of a replica's life at an instant, at its pool's price. A row never changes.
    The bill of a life is a function of all its reports."""

    __tablename__ = "life_report"
    __table_args__ = (
        CheckConstraint("until_us >= started_us AND busy_us >= 0", name="life_goes_forward"),
        CheckConstraint("nanousd_per_s >= 0", name="price_of_life"),
        {"sqlite_with_rowid": False},
    )
    replica: str = Field(primary_key=True)
    until_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    pool: str
    model: str
    nanousd_per_s: int = Field(sa_type=Big)
    started_us: int = Field(sa_type=Big)
    ready_us: int | None = Field(None, sa_type=Big)
    busy_us: int = Field(sa_type=Big)
    ended: bool


class CapacityHour(SQLModel, table=True):
    """The sums of a pool's capacity in a UTC hour, in nano-USD and microseconds. The row is a copy
    that `verify` recomputes from reports and attempts."""

    __tablename__ = "capacity_hour"
    __table_args__ = ({"sqlite_with_rowid": False},)
    hour_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    pool: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    cold_start_nanousd: int = Field(sa_type=Big)
    busy_nanousd: int = Field(sa_type=Big)
    idle_nanousd: int = Field(sa_type=Big)
    wasted_nanousd: int = Field(sa_type=Big)
    life_us: int = Field(sa_type=Big)
    cold_start_us: int = Field(sa_type=Big)
    busy_us: int = Field(sa_type=Big)


class BoughtDay(SQLModel, table=True):
    """What attempts bought outside in a UTC day, by the server and the key that they went with. The
    row is a copy that `verify` recomputes from attempts."""

    __tablename__ = "bought_day"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    pool: str = Field(primary_key=True)
    replica: str = Field(primary_key=True)
    bought_nanousd: int = Field(sa_type=Big)
