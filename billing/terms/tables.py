"""Rows of terms: those of an organization are one JSON value, put whole."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class OrganizationTerms(SQLModel, table=True):
    """What an organization pays at the end of its months. `has_minimum`: also where it used
    nothing."""

    __tablename__ = "organization_terms"
    org: str = Field(primary_key=True)
    terms: list[Any] = Field(sa_type=JSON)
    has_minimum: bool
    changed_us: int = Field(sa_type=Big)
