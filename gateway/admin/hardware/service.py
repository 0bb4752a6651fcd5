"""Hardware of the operator's own, beside the parts that ship."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlmodel import Session, col, select

from gateway.admin.hardware.schemas import HardwareBody
from gateway.admin.models.service import Refresh
from gateway.admin.use_cases import ADMIN, AdminStore, admin_store, attempt, must_get
from gateway.api.dependencies import parts_of
from gateway.catalog.fit import pool_misfits, variant_of
from gateway.catalog.hardware import name_mistake, part_of, parts_with
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.errors import bad_request
from gateway.tenants.store import Conflict
from routing.hardware.catalogue import Hardware


@dataclass(frozen=True, slots=True)
class HardwareService:
    """Raises ApiError: 404 for an unknown part, 400 for the name of a shipped one, 409 where a pool
    would not fit it any more, or still names it."""

    store: AdminStore
    refresh: Refresh

    async def parts(self) -> Mapping[str, Hardware]:
        rows = await attempt(lambda: self.store.tenants.every(HardwareRow, {"enabled": True}))
        return parts_with(rows)

    async def put(self, name: str, body: HardwareBody) -> Hardware:
        if words := name_mistake(name):
            raise bad_request(words, "name")
        columns = body.model_dump()
        row = HardwareRow(name=name, source=ADMIN, **columns)

        def work(session: Session) -> HardwareRow:
            for pool in _pools_on(session, name):
                variant = session.get(VariantRow, (pool.model, pool.variant))
                model = session.get(ModelRow, pool.model)
                before = {}
                if variant is not None and variant.enabled and model is not None:
                    before[pool.model, pool.variant] = variant_of(variant, model.context_tokens)
                for _, words in pool_misfits(pool, before, parts_with([row])):
                    raise Conflict(f"the pool {pool.name!r}: {words}")
            return session.merge(row)

        stored = await self.store.change("hardware.put", name, work, **columns)
        await self.refresh()
        return part_of(stored)

    async def disable(self, name: str) -> Hardware:
        def work(session: Session) -> HardwareRow:
            row = must_get(session, HardwareRow, name)
            for pool in _pools_on(session, name):
                raise Conflict(f"the pool {pool.name!r} still runs on {name!r}")
            row.enabled, row.source = False, ADMIN
            session.add(row)
            return row

        row = await self.store.change("hardware.disable", name, work)
        await self.refresh()
        return part_of(row)


def _pools_on(session: Session, name: str) -> list[PoolRow]:
    of_this = select(PoolRow).where(PoolRow.hardware == name, col(PoolRow.enabled))
    return list(session.exec(of_this))


async def hardware_of(request: Request) -> HardwareService:
    parts = parts_of(request)
    return HardwareService(admin_store(parts), parts.catalog.refresh)


HardwareParts = Annotated[HardwareService, Depends(hardware_of)]
