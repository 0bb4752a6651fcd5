"""Rows of a document that is kept in versions, and of when each came into force. Neither row ever
changes."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import BigInteger as Big
from sqlalchemy import Text
from sqlmodel import Field, SQLModel


class Version(SQLModel):
    """A document as it was sent."""

    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    document: str = Field(sa_type=Text)
    sha256: str
    """Of the document in UTF-8, in hexadecimal digits."""
    comment: str
    author: str
    created_us: int = Field(sa_type=Big)


class Activation(SQLModel):
    """A version came into force. The row with the highest number says which one is active."""

    number: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    version: int
    is_rollback: bool
    comment: str
    author: str
    at_us: int = Field(sa_type=Big)


class Kind(NamedTuple):
    """A document that is kept in versions: its name in logs and in Redis, its tables, and the lock
    by which its versions are numbered, and come into force, one after another. `neutral` is the
    document that stands for none: a rollback of the first version that came into force stores
    it."""

    name: str
    versions: type[Version]
    activations: type[Activation]
    lock: int
    neutral: str | None = None
