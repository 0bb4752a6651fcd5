"""The rows of the ledger.

`transfer`, `usage_event` and `usage_correction` are insert-only, by triggers in the migration:
a wrong amount is corrected by a linked reversal and a new row, and what is attached later
stands in tables of its own. Money is integer nano-USD, times are epoch microseconds.
"""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy import BigInteger as Big
from sqlalchemy import Integer as Int
from sqlmodel import Field, SQLModel

SERIAL = Big().with_variant(Int, "sqlite")  # SQLite counts up only an INTEGER primary key
ONLY_IN_SQLITE = {"engine": "sqlite"}
"""Of a constraint for which PostgreSQL has a trigger: once a statement, not once a row."""


def table_of(row: type[SQLModel]) -> Table:
    """The SQLAlchemy table behind a row class."""
    return cast(Table, cast(Any, row).__table__)


class Account(SQLModel, table=True):
    """Totals of one account; a copy that `verify` recomputes from the transfers."""

    __tablename__ = "account"
    __table_args__ = (CheckConstraint("debits >= 0 AND credits >= 0", name="totals_positive"),)
    code: str = Field(primary_key=True)
    org: str | None = None
    currency: str = "USD"
    debits: int = Field(0, sa_type=Big)
    credits: int = Field(0, sa_type=Big)


class Transfer(SQLModel, table=True):
    """One positive amount from one account to another; its id makes it happen once."""

    __tablename__ = "transfer"
    __table_args__ = (
        CheckConstraint("amount_nanousd > 0", name="amount_positive"),
        CheckConstraint("debit_account <> credit_account", name="two_accounts"),
        ForeignKeyConstraint(["debit_account"], ["account.code"], info=ONLY_IN_SQLITE),
        ForeignKeyConstraint(["credit_account"], ["account.code"], info=ONLY_IN_SQLITE),
        CheckConstraint(
            "kind IN ('charge','reversal','invoice','rounding','grant','burn','breakage','void',"
            "'cost','unallocated')",
            name="kind_known",
        ),
        Index("transfer_org_booked", "org", "booked_us"),
        Index("transfer_booked", "booked_us"),
        Index("transfer_rid", "rid"),
    )
    transfer_id: str = Field(primary_key=True)
    kind: str
    debit_account: str
    credit_account: str
    amount_nanousd: int = Field(sa_type=Big)
    currency: str = "USD"
    org: str
    rid: str | None = None
    reverses_id: str | None = Field(None, foreign_key="transfer.transfer_id", unique=True)
    booked_us: int = Field(sa_type=Big)
    created_us: int = Field(sa_type=Big)


class UsageColumns(SQLModel):
    """What was used, by whom, where, at which frozen price."""

    org: str
    project: str
    key: str
    gateway: str
    model_requested: str
    model: str
    variant: str
    pool: str
    capacity_class: str
    tier: str
    batch: bool = False
    status: str
    finish_reason: str | None = None
    error_code: str | None = None
    source: str
    input: int = Field(sa_type=Big)
    cached_input: int = Field(sa_type=Big)
    output: int = Field(sa_type=Big)
    price_version: str
    input_nanousd: int = Field(sa_type=Big)
    cached_input_nanousd: int = Field(sa_type=Big)
    output_nanousd: int = Field(sa_type=Big)
    request_nanousd: int = Field(sa_type=Big)
    cache_write: int = Field(0, sa_type=Big)
    reasoning: int = Field(0, sa_type=Big)
    gpu_ms: int = Field(0, sa_type=Big)
    cache_write_nanousd: int = Field(0, sa_type=Big)
    reasoning_nanousd: int = Field(0, sa_type=Big)
    gpu_ms_nanousd: int = Field(0, sa_type=Big)
    minimum_nanousd: int = Field(0, sa_type=Big)
    cost_nanousd: int = Field(0, sa_type=Big)
    """What the attempt that is charged for cost us, at the price of its pool."""
    amount_nanousd: int = Field(sa_type=Big)
    month: str
    admitted_us: int = Field(sa_type=Big)
    first_token_us: int | None = Field(None, sa_type=Big)
    ended_us: int = Field(sa_type=Big)
    ingested_us: int = Field(sa_type=Big)
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
    )
    rid: str = Field(primary_key=True)


class UsageCorrection(UsageColumns, table=True):
    """A better record of an event that was estimated; the highest n is what holds."""

    __tablename__ = "usage_correction"
    __table_args__ = (
        CheckConstraint("n >= 2", name="follows_the_event"),
        CheckConstraint("source IN ('exact','estimated')", name="source_known"),
    )
    rid: str = Field(primary_key=True, foreign_key="usage_event.rid")
    n: int = Field(primary_key=True)


class Sums(SQLModel):
    """What usage sums to."""

    requests: int = Field(sa_type=Big)
    input: int = Field(sa_type=Big)
    cached_input: int = Field(sa_type=Big)
    output: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)
    input_nanousd: int = Field(sa_type=Big)
    cached_input_nanousd: int = Field(sa_type=Big)
    output_nanousd: int = Field(sa_type=Big)
    request_nanousd: int = Field(sa_type=Big)
    cache_write: int = Field(0, sa_type=Big)
    reasoning: int = Field(0, sa_type=Big)
    gpu_ms: int = Field(0, sa_type=Big)
    cache_write_nanousd: int = Field(0, sa_type=Big)
    reasoning_nanousd: int = Field(0, sa_type=Big)
    gpu_ms_nanousd: int = Field(0, sa_type=Big)
    minimum_nanousd: int = Field(0, sa_type=Big)
    cost_nanousd: int = Field(0, sa_type=Big)


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
    `hour_us` begins. A copy that `verify` recomputes."""

    __tablename__ = "usage_hour"
    __table_args__ = ({"sqlite_with_rowid": False},)  # the key is most of a row: store it once
    hour_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})


class UsageDay(UsageSums, table=True):
    """Sums over the hours of a UTC day, which `day_us` begins: what spans of days are read from."""

    __tablename__ = "usage_day"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})


class UsageOrgDay(Sums, table=True):
    """Sums over a UTC day of an organization, whichever its projects, keys and pools: what
    questions about all organizations are read from."""

    __tablename__ = "usage_org_day"
    __table_args__ = ({"sqlite_with_rowid": False},)
    day_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    org: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    status: str = Field(primary_key=True)


class CallRecord(SQLModel, table=True):
    """Why the call went where it went: the decision, as the router gave it."""

    __tablename__ = "call_record"
    rid: str = Field(primary_key=True)
    decision: str = Field(sa_type=Text)


class Attempt(SQLModel, table=True):
    """One try of a call on one replica; part of our cost, never a usage event. `served` is the one
    whose cost is the call's."""

    __tablename__ = "attempt"
    rid: str = Field(primary_key=True)
    n: int = Field(primary_key=True)
    pool: str
    replica: str
    started_us: int = Field(sa_type=Big)
    ended_us: int | None = Field(None, sa_type=Big)
    outcome: str
    input: int = Field(0, sa_type=Big)
    cached_input: int = Field(0, sa_type=Big)
    output: int = Field(0, sa_type=Big)
    cache_write: int = Field(0, sa_type=Big)
    reasoning: int = Field(0, sa_type=Big)
    model: str = ""
    busy_us: int = Field(0, sa_type=Big)
    nanousd_per_s: int = Field(0, sa_type=Big)
    input_nanousd_per_mtok: int = Field(0, sa_type=Big)
    output_nanousd_per_mtok: int = Field(0, sa_type=Big)
    cost_nanousd: int = Field(0, sa_type=Big)
    bought_nanousd: int = Field(0, sa_type=Big)
    served: bool = False


class LifeReportRow(SQLModel, table=True):
    """What was known of a replica's life at an instant, at its pool's price; never changes. The
    bill of a life is a function of all its reports."""

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
    """What the capacity of a pool came to in a UTC hour, in nano-USD and microseconds: a copy that
    `verify` recomputes from reports and attempts."""

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


class OpenHold(SQLModel, table=True):
    """A call that was admitted and not yet settled when the writer read it."""

    __tablename__ = "open_hold"
    __table_args__ = (Index("open_hold_admitted", "admitted_us"),)
    rid: str = Field(primary_key=True)
    org: str
    project: str
    key: str
    hold_nanousd: int = Field(sa_type=Big)
    month: str
    admitted_us: int = Field(sa_type=Big)
    opened: str = Field(sa_type=Text)


class DeadLetter(SQLModel, table=True):
    """A stream record that could not be booked as it stood, and why. `kind` is what its entry said
    it was; "" where that was not kept yet."""

    __tablename__ = "dead_letter"
    __table_args__ = (
        Index("dead_letter_entry", "shard", "entry", "reason", unique=True),
        Index("dead_letter_rid", "rid"),
    )
    id: int | None = Field(None, primary_key=True, sa_type=SERIAL)
    shard: int
    entry: str
    kind: str = ""
    rid: str
    reason: str
    detail: str = Field(sa_type=Text)
    payload: bytes = Field(sa_type=LargeBinary)
    created_us: int = Field(sa_type=Big)


class DeadLetterResolution(SQLModel, table=True):
    """What became of a dead letter: booked after all, or judged by a person who says why."""

    __tablename__ = "dead_letter_resolution"
    __table_args__ = (
        CheckConstraint("outcome IN ('booked','judged')", name="outcome_known"),
        CheckConstraint("outcome = 'booked' OR note <> ''", name="judged_with_a_reason"),
    )
    letter_id: int = Field(
        primary_key=True,
        foreign_key="dead_letter.id",
        sa_type=Big,
        sa_column_kwargs={"autoincrement": False},
    )
    outcome: str
    resolved_by: str
    note: str = Field(sa_type=Text)
    resolved_us: int = Field(sa_type=Big)


class Watermark(SQLModel, table=True):
    """The last stream entry of a shard that is committed here, and when none was left unread."""

    __tablename__ = "watermark"
    shard: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    entry: str
    caught_up_us: int = Field(sa_type=Big)


class SpoolSegment(SQLModel, table=True):
    """What one spool file of one gateway held, so that nothing admitted can go missing."""

    __tablename__ = "spool_segment"
    gateway: str = Field(primary_key=True)
    seq: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    opened_count: int
    closed_count: int
    size_bytes: int = Field(sa_type=Big)
    sha: bytes = Field(sa_type=LargeBinary)
    seen_us: int = Field(sa_type=Big)


class PriceVersionRow(SQLModel, table=True):
    """A version of the price book: a draft may change, an approved one waits for its instant, an
    active one has it. `org` is "" where it holds for everybody. Triggers guard the order."""

    __tablename__ = "price_version"
    __table_args__ = (
        UniqueConstraint("org", "effective_from_us", name="price_version_begins_once"),
        CheckConstraint(
            "(status = 'draft' AND approved_us IS NULL AND effective_from_us IS NULL) OR "
            "(status = 'approved' AND approved_us IS NOT NULL AND effective_from_us IS NULL) OR "
            "(status = 'active' AND approved_us IS NOT NULL AND effective_from_us IS NOT NULL)",
            name="approved_then_active",
        ),
    )
    version_id: str = Field(primary_key=True)
    org: str = ""
    status: str
    effective_from_us: int | None = Field(None, sa_type=Big)
    created_us: int = Field(sa_type=Big)
    created_by: str
    approved_us: int | None = Field(None, sa_type=Big)
    approved_by: str | None = None
    activated_by: str | None = None
    note: str = ""


class PriceRateRow(SQLModel, table=True):
    """Nano-USD per million units of one component, for prompts of `prompt_from` tokens and more."""

    __tablename__ = "price_rate"
    __table_args__ = (
        CheckConstraint("nanousd_per_mtok >= 0 AND prompt_from >= 0", name="price_not_negative"),
        CheckConstraint("(component = 'gpu_ms') = (units_max IS NOT NULL)", name="gpu_ms_bounded"),
    )
    version_id: str = Field(primary_key=True, foreign_key="price_version.version_id")
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    batch: bool = Field(primary_key=True)
    component: str = Field(primary_key=True)
    prompt_from: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    nanousd_per_mtok: int = Field(sa_type=Big)
    units_max: int | None = Field(None, sa_type=Big)


class PriceDiscountRow(SQLModel, table=True):
    """Off everybody's prices, for the organization of a version; `model` "" is every other one."""

    __tablename__ = "price_discount"
    __table_args__ = (
        CheckConstraint("basis_points >= 0 AND basis_points <= 10000", name="part_of_the_price"),
    )
    version_id: str = Field(primary_key=True, foreign_key="price_version.version_id")
    model: str = Field(primary_key=True)
    basis_points: int


class CreditGrant(SQLModel, table=True):
    """Money that an organization may use up, on an account of its own. Insert-only by triggers, and
    no account of a grant is ever debited more than credited."""

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
    """From when a grant pays for no new call any more. Insert-only by triggers."""

    __tablename__ = "credit_void"
    grant_id: str = Field(primary_key=True, foreign_key="credit_grant.grant_id")
    voided_us: int = Field(sa_type=Big)
    voided_by: str


class CreditStanding(SQLModel, table=True):
    """Where an organization with credits stands: `cleared_nanousd` is what it ever spent less what
    it owes, a copy that `verify` recomputes; `moved_us` the time of the last movement of its
    credits, by a clock of the organization's own that never stands still nor goes back."""

    __tablename__ = "credit_standing"
    __table_args__ = (Index("credit_standing_moved", "moved_us"),)
    org: str = Field(primary_key=True)
    cleared_nanousd: int = Field(sa_type=Big)
    moved_us: int = Field(sa_type=Big)


class CreditWatch(SQLModel, table=True):
    """Of which amounts an organization wants to be told when its credit falls below them, and how
    it was when that was last looked at (see billing/credits/watch.py)."""

    __tablename__ = "credit_watch"
    org: str = Field(primary_key=True)
    thresholds: list[list[Any]] = Field(sa_type=JSON)
    granted_nanousd: int = Field(sa_type=Big)
    left_nanousd: int = Field(sa_type=Big)
    below: list[list[Any]] = Field(sa_type=JSON)


class CreditAlert(SQLModel, table=True):
    """The credit of an organization fell below a threshold: once for each fall."""

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


class Invoice(SQLModel, table=True):
    """One organization, one month. A draft is recomputed; a finalised one never changes."""

    __tablename__ = "invoice"
    __table_args__ = (
        Index("invoice_run", "org", "period", unique=True),
        Index("invoice_number", "series", "number", unique=True),
        CheckConstraint(
            "(status = 'draft' AND number IS NULL) OR "
            "(status = 'finalised' AND number IS NOT NULL)",
            name="numbered_when_finalised",
        ),
    )
    invoice_id: str = Field(primary_key=True)
    org: str
    period: str
    status: str
    series: str
    number: int | None = None
    currency: str = "USD"
    period_start_us: int = Field(sa_type=Big)
    period_end_us: int = Field(sa_type=Big)
    subtotal_nanousd: int = Field(sa_type=Big)
    rounding_nanousd: int = Field(sa_type=Big)
    total_cents: int = Field(sa_type=Big)
    computed_us: int = Field(sa_type=Big)


class InvoiceLine(SQLModel, table=True):
    """Usage of one component at one price, one adjustment, what a grant of credit has paid, or the
    rounding to cents."""

    __tablename__ = "invoice_line"
    __table_args__ = (
        CheckConstraint("kind IN ('usage','adjustment','credit','rounding')", name="kind_known"),
    )
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str
    project: str
    model: str
    tier: str
    batch: bool
    component: str
    price_version: str
    quantity: int = Field(sa_type=Big)
    unit_price_nanousd_per_mtok: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)
    service_start_us: int = Field(sa_type=Big)
    service_end_us: int = Field(sa_type=Big)
    grant_id: str = ""


class InvoiceTransfer(SQLModel, table=True):
    """The invoice a transfer is on: never more than one."""

    __tablename__ = "invoice_transfer"
    __table_args__ = (Index("invoice_transfer_invoice", "invoice_id"),)
    transfer_id: str = Field(primary_key=True, foreign_key="transfer.transfer_id")
    invoice_id: str = Field(foreign_key="invoice.invoice_id")


class InvoiceLineTransfer(SQLModel, table=True):
    """How much of a transfer a line carries; a transfer spreads over its components."""

    __tablename__ = "invoice_line_transfer"
    __table_args__ = (Index("invoice_line_transfer_transfer", "transfer_id"),)
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    transfer_id: str = Field(primary_key=True, foreign_key="transfer.transfer_id")
    amount_nanousd: int = Field(sa_type=Big)


class InvoiceCounter(SQLModel, table=True):
    """The next number of a series: taken in the transaction that finalises, so no gap."""

    __tablename__ = "invoice_counter"
    series: str = Field(primary_key=True)
    next_number: int = Field(1, sa_column_kwargs={"server_default": text("1")})
