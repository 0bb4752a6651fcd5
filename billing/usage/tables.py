"""Rows of usage: one event a call, its corrections, what explains it, and the sums by hour and day.

Events and corrections are insert-only, by triggers.
"""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    CheckConstraint,
    Index,
    LargeBinary,
    Text,
    false,
    text,
)
from sqlmodel import Field, SQLModel

from billing.types import Usage, usage_of

HAS_CANARY = text("is_canary IS NOT NULL")


class TokenCounts(SQLModel):
    """By the classes of `billing.types.Usage` that an attempt has, too."""

    input: int = Field(0, sa_type=Big)
    cached_input: int = Field(0, sa_type=Big)
    output: int = Field(0, sa_type=Big)
    cache_write: int = Field(0, sa_type=Big)
    reasoning: int = Field(0, sa_type=Big)


class Counts(TokenCounts):
    """What was used."""

    gpu_ms: int = Field(0, sa_type=Big)
    audio_input: int = Field(0, sa_type=Big)
    image_input: int = Field(0, sa_type=Big)
    audio_output: int = Field(0, sa_type=Big)
    image_output: int = Field(0, sa_type=Big)
    units: int = Field(0, sa_type=Big)

    @property
    def usage(self) -> Usage:
        return usage_of(self)


class Charged(SQLModel):
    """What is charged for it, by the parts of `billing.prices.rating.Charge` and in all; and what
    it cost us."""

    input_nanousd: int = Field(0, sa_type=Big)
    cached_input_nanousd: int = Field(0, sa_type=Big)
    output_nanousd: int = Field(0, sa_type=Big)
    request_nanousd: int = Field(0, sa_type=Big)
    cache_write_nanousd: int = Field(0, sa_type=Big)
    reasoning_nanousd: int = Field(0, sa_type=Big)
    gpu_ms_nanousd: int = Field(0, sa_type=Big)
    minimum_nanousd: int = Field(0, sa_type=Big)
    audio_input_nanousd: int = Field(0, sa_type=Big)
    image_input_nanousd: int = Field(0, sa_type=Big)
    audio_output_nanousd: int = Field(0, sa_type=Big)
    image_output_nanousd: int = Field(0, sa_type=Big)
    units_nanousd: int = Field(0, sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)
    cost_nanousd: int = Field(0, sa_type=Big)
    """Of a call that of the attempt that is charged for, at the price of its pool."""


class RouteColumns(SQLModel):
    """By which rule a call went, and why there, in words (`billing.types.Route`). Empty in rows of
    older releases."""

    rule: str | None = None
    policy_revision: int | None = None
    is_canary: bool | None = None
    """None where the rule has no canary."""
    reason: str | None = None
    wait_pool: str | None = None
    redecisions: int | None = None
    wait_end: str | None = None


class UsageRecord(Counts, Charged, RouteColumns):
    """One call as it is booked: by whom, where, at which frozen price."""

    rid: str
    org: str
    project: str
    key: str
    gateway: str
    model_requested: str
    model: str
    unit: str = Field("", sa_column_kwargs={"server_default": ""})
    """Of what its `units` are."""
    variant: str
    pool: str
    capacity_class: str
    is_simulated: bool = Field(False, sa_column_kwargs={"server_default": false()})
    """No GPU computed it: its time was that of one, and its text has no meaning."""
    tier: str
    batch: bool = False
    status: str
    finish_reason: str | None = None
    error_code: str | None = None
    source: str
    price_version: str
    month: str
    admitted_us: int = Field(sa_type=Big)
    first_token_us: int | None = Field(None, sa_type=Big)
    ended_us: int = Field(sa_type=Big)
    ingested_us: int = Field(sa_type=Big)


class NumberedRecord(UsageRecord):
    """One of the records of a call, from 1. The last one is the best."""

    n: int = 1

    @property
    def corrections(self) -> int:
        """How many records it takes the place of."""
        return self.n - 1


class UsageColumns(UsageRecord):
    payload_sha: bytes = Field(sa_type=LargeBinary)


class UsageEvent(UsageColumns, table=True):
    """The one usage event of a request id, as it was first recorded."""

    __tablename__ = "usage_event"
    __table_args__ = (
        CheckConstraint("source IN ('exact','estimated')", name="source_known"),
        CheckConstraint("input >= 0 AND cached_input >= 0 AND output >= 0", name="counts"),
        CheckConstraint(
            "status IN ('answered','cancelled','failed','refused')", name="status_known"
        ),
        Index("usage_event_org_ended", "org", "ended_us"),
        Index("usage_event_ended", "ended_us"),
        Index(
            "usage_event_canary",
            "policy_revision",
            "ended_us",
            sqlite_where=HAS_CANARY,
            postgresql_where=HAS_CANARY,
        ),
    )
    rid: str = Field(primary_key=True)


class UsageCorrection(UsageColumns, table=True):
    """A better record of an event that was estimated. The one with the highest n counts."""

    __tablename__ = "usage_correction"
    __table_args__ = (
        CheckConstraint("n >= 2", name="follows_the_event"),
        CheckConstraint("source IN ('exact','estimated')", name="source_known"),
    )
    rid: str = Field(primary_key=True, foreign_key="usage_event.rid")
    n: int = Field(primary_key=True)


class Sums(Counts, Charged):
    """What usage sums to."""

    requests: int = Field(sa_type=Big)


class UsageSums(Sums):
    """Of some span: by what usage is grouped and filtered, and what it sums to. `month` is that of
    admission, by which budgets count."""

    org: str = Field(primary_key=True)
    project: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    pool: str = Field(primary_key=True)
    status: str = Field(primary_key=True)
    month: str = Field(primary_key=True)


class UsageHour(UsageSums, table=True):
    """Sums over the best records of the calls whose first record ended in a UTC hour, which
    `hour_us` begins. The row is a copy that `verify` recomputes."""

    __tablename__ = "usage_hour"
    __table_args__ = ({"sqlite_with_rowid": False},)  # the key is most of a row: store it once
    hour_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})


class UsageDay(UsageSums, table=True):
    """Sums over the hours of a UTC day, which `day_us` begins. Long ranges are read from days."""

    __tablename__ = "usage_day"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})


class UsageOrgDay(Sums, table=True):
    """Sums over a UTC day of an organization, over all its projects, keys and pools. Questions
    about all organizations are read from these."""

    __tablename__ = "usage_org_day"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    org: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    status: str = Field(primary_key=True)


class CallRecordRow(SQLModel, table=True):
    """Why a call of an older release went where it went: the decision with its candidates. Now what
    it was made from is kept (`billing.decisions.tables`), and no row is added here."""

    __tablename__ = "call_record"
    rid: str = Field(primary_key=True)
    decision: str = Field(sa_type=Text)


class IdempotentCall(SQLModel, table=True):
    """The `Idempotency-Key` of an API key under which a call ran, so that it is known after Redis
    forgot it. Only a SHA-256 of the key is kept. The row is insert-only by triggers."""

    __tablename__ = "idempotent_call"
    __table_args__ = (Index("idempotent_call_key", "api_key", "digest", "ended_us"),)
    rid: str = Field(primary_key=True, foreign_key="usage_event.rid")
    api_key: str
    digest: str
    ended_us: int = Field(sa_type=Big)
