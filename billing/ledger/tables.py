"""Rows of the ledger itself: accounts and transfers. Transfers are insert-only, by a trigger."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
)
from sqlmodel import Field, SQLModel

from billing.db.columns import ONLY_IN_SQLITE


class Account(SQLModel, table=True):
    """Totals of one account; a copy that `verify` recomputes from the transfers."""

    __tablename__ = "account"
    __table_args__ = (CheckConstraint("debits >= 0 AND credits >= 0", name="totals_positive"),)
    code: str = Field(primary_key=True)
    org: str | None = None
    currency: str = "USD"
    debits: int = Field(0, sa_type=Big)
    credits: int = Field(0, sa_type=Big)


class ClosedPeriod(SQLModel, table=True):
    """A month whose books are closed. No transfer is booked before its end any more."""

    __tablename__ = "closed_period"
    period: str = Field(primary_key=True)
    end_us: int = Field(sa_type=Big)
    closed_by: str
    closed_us: int = Field(sa_type=Big)


class ClosedPeriodTotal(SQLModel, table=True):
    """What the ledger had up to the end of a month when its books were closed."""

    __tablename__ = "closed_period_total"
    period: str = Field(primary_key=True, foreign_key="closed_period.period")
    transfers: int = Field(sa_type=Big)
    amount_nanousd: int = Field(sa_type=Big)


class TransferKind(SQLModel, table=True):
    """A kind that a transfer may have. A migration adds one, and copies no transfer for it."""

    __tablename__ = "transfer_kind"
    kind: str = Field(primary_key=True)


class Transfer(SQLModel, table=True):
    """One positive amount from one account to another. Its id makes it happen once."""

    __tablename__ = "transfer"
    __table_args__ = (
        CheckConstraint("amount_nanousd > 0", name="amount_positive"),
        CheckConstraint("debit_account <> credit_account", name="two_accounts"),
        ForeignKeyConstraint(["debit_account"], ["account.code"], info=ONLY_IN_SQLITE),
        ForeignKeyConstraint(["credit_account"], ["account.code"], info=ONLY_IN_SQLITE),
        ForeignKeyConstraint(["kind"], ["transfer_kind.kind"], info=ONLY_IN_SQLITE),
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
