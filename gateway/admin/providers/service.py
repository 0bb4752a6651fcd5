"""Accounts with providers as an administrator keeps them, and as this gateway sees them now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request
from sqlmodel import Session

from billing.costs.store import bought
from billing.db.engine import Store
from billing.periods import period_at
from gateway.admin.models.service import Refresh
from gateway.admin.pools.fleet import health_answer, names_of
from gateway.admin.pools.service import CheckedPool, PoolChecker
from gateway.admin.providers.schemas import ProviderCheckBody
from gateway.admin.use_cases import AdminStore, NotThere, admin_store, attempt, must_get
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.external import ExternalRules
from gateway.catalog.fleet import outside_id
from gateway.errors import bad_request
from gateway.health.breakers import Breakers, key_scopes
from gateway.providers.key import KEYS_MAX, KeyFields, ProviderKey
from gateway.providers.keys import ProviderKeys, place_of_key
from gateway.providers.tables import ProviderRow
from routing.types import Pool, PoolHealth

Spent = Mapping[tuple[str, str], int]
"""By pool and by what attempts went with, as records name it."""


class CheckedProvider(NamedTuple):
    """One tiny call of a provider, and what came of it."""

    provider: str
    key: str | None
    row: Any
    check: Any


@dataclass(frozen=True, slots=True)
class ProviderService:
    """Raises ApiError: 404 for an account or key that is not there, 400 for a name that may not be
    sent."""

    store: AdminStore
    rules: ExternalRules
    refresh: Refresh
    catalog: CatalogKeeper
    breakers: Breakers
    keys: ProviderKeys
    ledger: Store

    async def page(self, request: PageRequest) -> PageRows[dict[str, Any]]:
        """By their names: accounts, and providers that pools name."""
        await self.catalog.refresh()
        pools = self._pools()
        names = sorted({*self.catalog.catalog.provider_keys, *pools})
        spent = await self._spent()

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, dict[str, Any]]]:
            left = [name for name in names if behind is None or name > behind[0]]
            return [
                ((each,), self._seen(each, pools.get(each, ()), spent)) for each in left[:limit]
            ]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def provider(self, name: str) -> dict[str, Any]:
        await self.catalog.refresh()
        pools = self._pools()
        if name not in self.catalog.catalog.provider_keys and name not in pools:
            await attempt(lambda: _missing(name))
        return self._seen(name, pools.get(name, ()), await self._spent())

    async def put(self, name: str, keys: Sequence[ProviderKey]) -> dict[str, Any]:
        """An account with these keys and no others."""
        names = names_of(keys)
        for place, key in enumerate(names):
            self._may_be_sent(key, f"keys.{place}.name")
            if key in names[:place]:
                raise bad_request(f"keys.{place}.name: {key} is there twice.", f"keys.{place}.name")

        def work(session: Session) -> ProviderRow:
            return session.merge(ProviderRow(name=name, keys=[_row(key) for key in keys]))

        return await self._changed("provider.put", name, work, keys=names)

    async def put_key(self, name: str, key: str, fields: KeyFields) -> dict[str, Any]:
        """One more key, or another share and other limits. From the next attempt on it counts."""
        self._may_be_sent(key, "key")
        new = _row(ProviderKey(name=key, **fields.model_dump()))

        def work(session: Session) -> ProviderRow:
            row = must_get(session, ProviderRow, name)
            before = [each["name"] for each in row.keys]
            if key in before:
                row.keys = [new if each["name"] == key else each for each in row.keys]
            elif len(before) >= KEYS_MAX:
                raise bad_request(f"An account has at most {KEYS_MAX} keys.", "key")
            else:
                row.keys = [*row.keys, new]
            session.add(row)
            return row

        return await self._changed("provider.put_key", name, work, key=key)

    async def remove_key(self, name: str, key: str) -> dict[str, Any]:
        """No further attempt goes with it. Those that run end with it."""

        def work(session: Session) -> ProviderRow:
            row = must_get(session, ProviderRow, name)
            left = [each for each in row.keys if each["name"] != key]
            if len(left) == len(row.keys):
                raise NotThere(key)
            row.keys = left
            session.add(row)
            return row

        return await self._changed("provider.remove_key", name, work, key=key)

    async def delete(self, name: str) -> dict[str, Any]:
        """As it was. Its pools go on with the keys that they name themselves."""
        before = await self.provider(name)

        def work(session: Session) -> ProviderRow:
            row = must_get(session, ProviderRow, name)
            session.delete(row)
            return row

        await self.store.change("provider.delete", name, work)
        await self.refresh()
        return before

    async def check(
        self, name: str, body: ProviderCheckBody, checker: PoolChecker
    ) -> CheckedProvider:
        """One tiny call, which no tenant pays for."""
        await self.provider(name)
        pools = {pool.name: pool for pool in self._pools().get(name, ())}
        if not pools:
            raise bad_request(f"No pool has the provider '{name}'.", "name")
        pool = next(iter(pools.values())) if body.pool is None else pools.get(body.pool)
        if pool is None:
            raise bad_request(f"'{body.pool}' is no pool of '{name}'.", "pool")
        known = names_of(self._keys_of(name, [pool]))
        if body.key is not None and body.key not in known:
            raise bad_request(f"'{body.key}' is no key of '{name}' for this pool.", "key")
        key = body.key or self.keys.any_of(pool).api_key_env
        checked: CheckedPool = await checker.check(pool.name, key)
        return CheckedProvider(name, key, checked.row, checked.check)

    # --- inside --------------------------------------------------------------------------------

    def _may_be_sent(self, key: str, field: str) -> None:
        for _, words in self.rules.mistakes(None, key):
            raise bad_request(f"{field}: {words}", field)

    async def _changed(self, action: str, name: str, work: Any, **detail: Any) -> dict[str, Any]:
        await self.store.change(action, name, work, **detail)
        await self.refresh()
        return await self.provider(name)

    def _pools(self) -> Mapping[str, Sequence[Pool]]:
        by_provider: dict[str, list[Pool]] = {}
        for pool in self.catalog.catalog.pools:
            if pool.is_external and pool.provider:
                by_provider.setdefault(pool.provider, []).append(pool)
        return by_provider

    async def _spent(self) -> Spent:
        """In this month."""
        month = period_at(self.store.now_us)

        def read() -> Spent:
            with self.ledger.read() as conn:
                return bought(conn, month.start_us, month.end_us)

        return await attempt(read)

    def _keys_of(self, name: str, pools: Iterable[Pool]) -> Sequence[ProviderKey]:
        """Those of the account, else those that its pools name."""
        own = self.catalog.catalog.provider_keys.get(name)
        if own:
            return own
        named = dict.fromkeys(pool.api_key_env for pool in pools if pool.api_key_env)
        return [ProviderKey.model_construct(name=key) for key in named]

    def _seen(self, name: str, pools: Sequence[Pool], spent: Spent) -> dict[str, Any]:
        catalog = self.catalog.catalog
        keys = self._keys_of(name, pools)
        names = {pool.name for pool in pools}
        healths = [
            self.breakers.health_outside(pool, names_of(catalog.keys_of(pool))) for pool in pools
        ]
        return {
            "name": name,
            "is_account": name in catalog.provider_keys,
            "keys": [self._seen_key(key, pools, spent) for key in keys],
            "pools": [pool.name for pool in pools],
            "spend_usd": sum(nanousd for (pool, _), nanousd in spent.items() if pool in names),
            **health_answer(_best(healths)),
        }

    def _seen_key(self, key: ProviderKey, pools: Sequence[Pool], spent: Spent) -> dict[str, Any]:
        healths = [
            self.breakers.health(key_scopes(pool, key.name)[1:])
            for pool in pools
            if key.region in (None, pool.region)
        ]
        return {
            **key.model_dump(),
            "is_set": self.keys.is_set(key.name),
            "in_flight": self.keys.limits.in_flight(key.name),
            "spend_usd": sum(_spent_with(key.name, pool, spent) for pool in pools),
            **health_answer(_worst(healths)),
        }


def _missing(name: str) -> None:
    raise NotThere(name)


def _row(key: ProviderKey) -> dict[str, Any]:
    return key.model_dump(exclude_defaults=True)


def _spent_with(key: str, pool: Pool, spent: Spent) -> int:
    """Of a pool without an account, records name the pool alone: it goes with its own key."""
    nanousd = spent.get((pool.name, place_of_key(pool.name, key)), 0)
    if pool.api_key_env == key:
        nanousd += spent.get((pool.name, outside_id(pool.name)), 0)
    return nanousd


def _best(healths: Sequence[PoolHealth | None]) -> PoolHealth | None:
    ill = [health for health in healths if health is not None]
    return min(ill, key=_until_s) if ill and len(ill) == len(healths) else None


def _worst(healths: Sequence[PoolHealth | None]) -> PoolHealth | None:
    ill = [health for health in healths if health is not None]
    return max(ill, key=_until_s, default=None)


def _until_s(health: PoolHealth) -> float:
    return health.until_s or 0.0


async def providers_of(request: Request) -> ProviderService:
    parts = parts_of(request)
    return ProviderService(
        store=admin_store(parts),
        rules=parts.settings.gateway.external_rules,
        refresh=parts.catalog.refresh,
        catalog=parts.catalog,
        breakers=parts.breakers,
        keys=parts.provider_keys,
        ledger=parts.ledger,
    )


Providers = Annotated[ProviderService, Depends(providers_of)]
