"""Price lists of providers: drafted, compared with the list before, approved."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Depends, Request
from sqlalchemy import func
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from gateway.admin.models.service import Refresh
from gateway.admin.price_lists.schemas import PriceListBody
from gateway.admin.use_cases import ADMIN, AdminStore, NotThere, admin_store, attempt, must_get
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from gateway.providers.price_list import ListedRate, PriceChange, changes, mistakes, rates_at
from gateway.providers.tables import ProviderPriceListRow, ProviderRow
from gateway.tenants.store import Conflict

ListRow = ProviderPriceListRow


class SeenList(NamedTuple):
    """A list, and what it changes."""

    provider: str
    version: int
    status: str
    starts_us: int
    comment: str
    created_us: int
    created_by: str
    approved_us: int | None
    approved_by: str | None
    rates: Sequence[ListedRate]
    changes: Sequence[PriceChange]


@dataclass(frozen=True, slots=True)
class PriceListService:
    """Raises ApiError: 404 for a provider that is no account and for an unknown list, 400 for rates
    that cannot be, 409 where a list is approved already or another one begins at its instant."""

    store: AdminStore
    refresh: Refresh

    async def draft(self, provider: str, body: PriceListBody) -> SeenList:
        for words in mistakes(body.rates):
            raise bad_request(f"rates: {words}", "rates")

        def work(session: Session) -> ListRow:
            must_get(session, ProviderRow, provider)
            of_provider = col(ListRow.provider) == provider
            newest = session.exec(select(func.max(col(ListRow.version))).where(of_provider)).one()
            row = ListRow(
                provider=provider,
                version=(newest or 0) + 1,
                starts_us=body.from_,
                rates=[rate.model_dump(by_alias=False) for rate in body.rates],
                comment=body.comment,
                created_us=self.store.now_us,
                created_by=ADMIN,
            )
            session.add(row)
            return row

        row = await self.store.change("provider_price_list.draft", provider, work)
        return await self.one(provider, row.version)

    async def approve(self, provider: str, version: int) -> SeenList:
        """From now on its rates count, from its instant on."""

        def work(session: Session) -> ListRow:
            row = session.get(ListRow, (provider, version))
            if row is None:
                raise NotThere(f"{provider}/{version}")
            if row.approved_us is not None:
                raise Conflict(f"list {version} of {provider} is approved already")
            for other in session.exec(_approved(provider)):
                if other.starts_us == row.starts_us:
                    raise Conflict(f"list {other.version} begins at the same instant")
            row.approved_us, row.approved_by = self.store.now_us, ADMIN
            session.add(row)
            return row

        await self.store.change("provider_price_list.approve", provider, work, version=version)
        await self.refresh()
        return await self.one(provider, version)

    async def one(self, provider: str, version: int) -> SeenList:
        def read() -> SeenList:
            row = self.store.tenants.one(ListRow, (provider, version))
            if row is None:
                raise NotThere(f"{provider}/{version}")
            return _seen(row, self._approved(provider))

        return await attempt(read)

    async def page(self, provider: str, request: PageRequest) -> PageRows[SeenList]:
        """By version, the newest first."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, SeenList]]:
            before = () if behind is None else (col(ListRow.version) < behind[0],)
            every = self.store.tenants.page(ListRow, {"provider": provider}, *before)
            approved = self._approved(provider)
            newest = sorted(every, key=lambda row: -row.version)[:limit]
            return [((row.version,), _seen(row, approved)) for row in newest]

        def lists() -> PageRows[SeenList]:
            if self.store.tenants.one(ProviderRow, provider) is None:
                raise NotThere(provider)
            return read_page(request, Source((int,), read))

        return await attempt(lists)

    def _approved(self, provider: str) -> Sequence[ListRow]:
        is_approved = col(ListRow.approved_us).is_not(None)
        return self.store.tenants.page(ListRow, {"provider": provider}, is_approved)


def _approved(provider: str) -> SelectOfScalar[ListRow]:
    return select(ListRow).where(
        col(ListRow.provider) == provider, col(ListRow.approved_us).is_not(None)
    )


def _seen(row: ListRow, approved: Sequence[ListRow]) -> SeenList:
    own = row.price_list
    others = [each.price_list for each in approved if each.version != row.version]
    before = [
        rate
        for model in sorted({rate.model for rate in own.rates})
        for rate in rates_at(others, model, row.starts_us)
    ]
    return SeenList(
        *(row.provider, row.version, row.status, row.starts_us, row.comment),
        *(row.created_us, row.created_by, row.approved_us, row.approved_by),
        own.rates,
        changes(before, own.rates),
    )


async def price_lists_of(request: Request) -> PriceListService:
    parts = parts_of(request)
    return PriceListService(admin_store(parts), parts.catalog.refresh)


PriceLists = Annotated[PriceListService, Depends(price_lists_of)]
