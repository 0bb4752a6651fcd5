"""Rows of what the writer has read, and of what it could not book."""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import (
    CheckConstraint,
    Index,
    LargeBinary,
    Text,
)
from sqlmodel import Field, SQLModel

from billing.db.columns import SERIAL


class DeadLetter(SQLModel, table=True):
    """A stream record that could not be booked as it stood, and the reason. `kind` is that of its
    entry, or "" in rows from before it was kept."""

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
    """The outcome of a dead letter: booked after all, or judged by a person who gives the
    reason."""

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
    """The last committed stream entry of a shard, and when no entry was left unread."""

    __tablename__ = "watermark"
    shard: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    entry: str
    caught_up_us: int = Field(sa_type=Big)
