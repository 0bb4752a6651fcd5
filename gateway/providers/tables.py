"""Rows of accounts with providers. They name keys; what a key is, no row says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON
from sqlmodel import Field, SQLModel


class ProviderRow(SQLModel, table=True):
    """An account. `keys` are JSON, as `ProviderKey` writes them."""

    __tablename__ = "provider"
    name: str = Field(primary_key=True)
    keys: list[dict[str, Any]] = Field(default=[], sa_type=JSON)
