"""Rows of accounts with providers. They name keys; what a key is, no row says."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, Session, SQLModel, col, select
from sqlmodel.sql.expression import SelectOfScalar

from gateway.providers.price_list import PriceList, read_rates


class ProviderRow(SQLModel, table=True):
    """An account. `keys` are JSON, as `ProviderKey` writes them."""

    __tablename__ = "provider"
    name: str = Field(primary_key=True)
    keys: list[dict[str, Any]] = Field(default=[], sa_type=JSON)


class ProviderPriceListRow(SQLModel, table=True):
    """What a provider charges us from an instant on. A draft may be approved, and then never
    changes, by triggers. `rates` are JSON, as `ListedRate` writes them."""

    __tablename__ = "provider_price_list"
    __table_args__ = (
        CheckConstraint(
            "(approved_us IS NULL) = (approved_by IS NULL)", name="approved_by_someone"
        ),
    )
    provider: str = Field(primary_key=True)
    version: int = Field(primary_key=True, sa_column_kwargs={"autoincrement": False})
    starts_us: int = Field(sa_type=Big)
    rates: list[dict[str, Any]] = Field(sa_type=JSON)
    comment: str = ""
    created_us: int = Field(sa_type=Big)
    created_by: str
    approved_us: int | None = Field(default=None, sa_type=Big)
    approved_by: str | None = None

    @property
    def price_list(self) -> PriceList:
        return PriceList(self.version, self.starts_us, read_rates(self.rates))

    @property
    def status(self) -> str:
        return "draft" if self.approved_us is None else "approved"


def approved_lists() -> SelectOfScalar[ProviderPriceListRow]:
    table = ProviderPriceListRow
    query = select(table).where(col(table.approved_us).is_not(None))
    return query.order_by(col(table.provider), col(table.version))


def bought_models(session: Session, now_us: int) -> dict[str, frozenset[str]]:
    """By account, the models with a price that is approved and holds."""
    bought: dict[str, set[str]] = {row.name: set() for row in session.exec(select(ProviderRow))}
    for row in session.exec(approved_lists()):
        if row.starts_us <= now_us and row.provider in bought:
            bought[row.provider].update(rate.model for rate in row.price_list.rates)
    return {name: frozenset(models) for name, models in bought.items()}
