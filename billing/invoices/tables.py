"""Rows of invoices: lines, and the cut of the ledger that they sum."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    false,
    text,
)
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class Invoice(SQLModel, table=True):
    """One organization, one month. A draft is recomputed; a finalised one never changes. Once it is
    void, the next revision replaces it."""

    __tablename__ = "invoice"
    __table_args__ = (
        Index("invoice_run", "org", "period", "revision", unique=True),
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
    tax_cents: int = Field(0, sa_type=Big, sa_column_kwargs={"server_default": text("0")})
    """Of a final invoice; a draft is taxed by the rules of the day on which it is looked at."""
    revision: int = Field(1, sa_column_kwargs={"server_default": text("1")})
    replaces_id: str | None = None
    kind: str = Field("month", sa_column_kwargs={"server_default": "month"})
    """`month`, or `one_off`: lines that a person wrote."""


class InvoiceVoid(SQLModel, table=True):
    """A final invoice that does not count any more. It keeps its number."""

    __tablename__ = "invoice_void"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    reason: str
    voided_by: str
    voided_us: int = Field(sa_type=Big)


class InvoiceWriteOff(SQLModel, table=True):
    """What of a final invoice nobody expects to be paid any more."""

    __tablename__ = "invoice_write_off"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    amount_cents: int = Field(sa_type=Big)
    reason: str
    written_by: str
    written_us: int = Field(sa_type=Big)


class InvoiceReview(SQLModel, table=True):
    """What a person has said last of a draft, which may be written anew meanwhile."""

    __tablename__ = "invoice_review"
    invoice_id: str = Field(primary_key=True)
    held_because: str
    approved_cents: int | None = Field(None, sa_type=Big)
    changed_by: str
    changed_us: int = Field(sa_type=Big)


class InvoiceLineKind(SQLModel, table=True):
    """A kind that an invoice line may have."""

    __tablename__ = "invoice_line_kind"
    kind: str = Field(primary_key=True)


class InvoiceLine(SQLModel, table=True):
    """Usage of one component at one price, or one adjustment, or what a term adds, or what a grant
    of credit has paid, or the rounding to cents."""

    __tablename__ = "invoice_line"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    kind: str = Field(foreign_key="invoice_line_kind.kind")
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
    is_simulated: bool = Field(False, sa_column_kwargs={"server_default": false()})
    """Of usage that simulated pools served."""
    transfers: int = Field(0, sa_type=Big, sa_column_kwargs={"server_default": text("0")})
    """How many transfers have a part in the amount."""
    term_id: str = Field("", sa_column_kwargs={"server_default": text("''")})
    description: str = Field("", sa_column_kwargs={"server_default": text("''")})
    tax_place: int | None = None
    """Of the `invoice_tax` that it is taxed by, once the invoice is final."""


class InvoiceTax(SQLModel, table=True):
    """The tax of a final invoice on all lines of one treatment. It is booked to
    `tax:SELLER:PLACE`, unless it has shares: then these are."""

    __tablename__ = "invoice_tax"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    place: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    category: str
    rate_ppm: int
    reason_code: str
    note: str
    account: str
    base_cents: int = Field(sa_type=Big)
    tax_cents: int = Field(sa_type=Big)


class InvoiceTaxShare(SQLModel, table=True):
    """What of a tax one of several jurisdictions asks for. It is booked to
    `tax:SELLER:PLACE:JURISDICTION`, and the shares of a tax sum to it."""

    __tablename__ = "invoice_tax_share"
    __table_args__ = (
        ForeignKeyConstraint(
            ["invoice_id", "place"], ["invoice_tax.invoice_id", "invoice_tax.place"]
        ),
    )
    invoice_id: str = Field(primary_key=True)
    place: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    share: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    jurisdiction: str
    rate_ppm: int
    account: str
    tax_cents: int = Field(sa_type=Big)


class InvoiceCut(SQLModel, table=True):
    """Which charges an invoice has: those of its organization in a month whose place in booking
    order is in (after_us, upto_us]. A place is the `created_us` of a transfer. The cuts of two
    invoices never overlap, so a charge is on one invoice at most."""

    __tablename__ = "invoice_cut"
    __table_args__ = (CheckConstraint("after_us < upto_us", name="cut_forward"),)
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    service_start_us: int = Field(
        primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False}
    )
    after_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    upto_us: int = Field(sa_type=Big)


class InvoiceParties(SQLModel, table=True):
    """Who bills whom with a final invoice, and under which tax rule, as they were when it got its
    number. A later change of a profile changes none."""

    __tablename__ = "invoice_parties"
    invoice_id: str = Field(primary_key=True, foreign_key="invoice.invoice_id")
    seller: dict[str, Any] = Field(sa_type=JSON)
    buyer: dict[str, Any] = Field(sa_type=JSON)
    rule: dict[str, Any] = Field(sa_type=JSON)
    issued_us: int = Field(sa_type=Big)
    due_us: int = Field(sa_type=Big)
    vat_check: dict[str, Any] | None = Field(None, sa_type=JSON(none_as_null=True))
    """The last answer about the buyer's VAT id, if there was one."""
    conversion: dict[str, Any] | None = Field(None, sa_type=JSON(none_as_null=True))
    """The rate of the other currency that its documents show, if they show one."""


class InvoiceCounter(SQLModel, table=True):
    """The next number of a series. The transaction that finalises takes it, so there is no gap."""

    __tablename__ = "invoice_counter"
    series: str = Field(primary_key=True)
    next_number: int = Field(1, sa_column_kwargs={"server_default": text("1")})


UNFINISHED = text("state NOT IN ('done', 'failed')")


class InvoiceRun(SQLModel, table=True):
    """A run over the invoices of a month, of one organization or of all (`org` ""). `after_org` is
    the last organization it has been at, so that it goes on there after a kill. One run of a month
    and an organization is unfinished at most."""

    __tablename__ = "invoice_job"
    __table_args__ = (
        Index(
            "invoice_job_unfinished",
            "period",
            "org",
            unique=True,
            sqlite_where=UNFINISHED,
            postgresql_where=UNFINISHED,
        ),
        CheckConstraint(
            "state IN ('queued','running','waiting','done','failed')", name="run_state_known"
        ),
    )
    run_id: str = Field(primary_key=True)
    period: str
    org: str = ""
    state: str = "queued"
    after_org: str = ""
    done: int = 0
    total: int = 0
    waiting: int = 0
    problem: str = ""
    created_us: int = Field(sa_type=Big)
    changed_us: int = Field(sa_type=Big)
