"""Rows of credit notes. They never change: a trigger refuses it."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import CheckConstraint, Index
from sqlmodel import Field, SQLModel


class CreditNote(SQLModel, table=True):
    """What is taken back of a final invoice, under a number of a series of its own."""

    __tablename__ = "credit_note"
    __table_args__ = (
        Index("credit_note_number", "series", "number", unique=True),
        Index("credit_note_invoice", "invoice_id"),
        CheckConstraint("net_cents >= 0 AND tax_cents >= 0", name="credit_not_negative"),
        CheckConstraint("net_cents + tax_cents > 0", name="credit_of_something"),
    )
    note_id: str = Field(primary_key=True)
    invoice_id: str = Field(foreign_key="invoice.invoice_id")
    org: str
    series: str
    number: int
    reason: str
    net_cents: int = Field(sa_type=Big)
    tax_cents: int = Field(sa_type=Big)
    created_by: str
    created_us: int = Field(sa_type=Big)


class CreditNoteLine(SQLModel, table=True):
    """One amount without tax. `line_seq` is the line of the invoice, 0 where it is none in
    particular; `tax_place` its `invoice_tax`, 0 where it has none; `quantity` 0 for an amount."""

    __tablename__ = "credit_note_line"
    note_id: str = Field(primary_key=True, foreign_key="credit_note.note_id")
    seq: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    line_seq: int
    tax_place: int
    quantity: int = Field(sa_type=Big)
    amount_cents: int = Field(sa_type=Big)


class CreditNoteTaxShare(SQLModel, table=True):
    """What a note takes back of what one of several jurisdictions asked for."""

    __tablename__ = "credit_note_tax_share"
    note_id: str = Field(primary_key=True, foreign_key="credit_note.note_id")
    tax_place: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    share: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    tax_cents: int = Field(sa_type=Big)


class CreditNoteTax(SQLModel, table=True):
    """What a note takes back of one tax of its invoice."""

    __tablename__ = "credit_note_tax"
    note_id: str = Field(primary_key=True, foreign_key="credit_note.note_id")
    tax_place: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    base_cents: int = Field(sa_type=Big)
    tax_cents: int = Field(sa_type=Big)
