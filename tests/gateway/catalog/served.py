"""Models and pools as an administrator changes them at another gateway, of which this one hears
nothing."""

from __future__ import annotations

from typing import Any

from gateway.admin.hardware.schemas import HardwareBody
from gateway.admin.hardware.service import HardwareService
from gateway.admin.models.service import ModelService
from gateway.admin.pools.schemas import PoolBody
from gateway.admin.pools.service import PoolService
from gateway.admin.use_cases import AdminStore
from gateway.admin.variants.schemas import VariantBody
from gateway.admin.variants.service import VariantService
from gateway.catalog.external import ExternalRules
from gateway.tenants.store import TenantStore
from routing.types import Clock


class Served:
    def __init__(self, tenants: TenantStore, clock: Clock) -> None:
        store = AdminStore(tenants, clock, forget=lambda: None)
        self._hardware = HardwareService(store, _nothing)
        self._models = ModelService(store, _nothing)
        self._variants = VariantService(store, _nothing)
        self._pools = PoolService(store, ExternalRules(), _nothing, why_blocked=lambda _: None)

    async def put_hardware(self, name: str, fields: dict[str, Any]) -> None:
        await self._hardware.put(name, HardwareBody(**fields))

    async def disable_hardware(self, name: str) -> None:
        await self._hardware.disable(name)

    async def put_model(self, name: str, fields: dict[str, Any]) -> None:
        await self._models.put(name, fields)

    async def disable_model(self, name: str) -> None:
        await self._models.disable(name)

    async def put_variant(self, model: str, name: str, fields: dict[str, Any]) -> None:
        await self._variants.put(model, name, VariantBody(**fields))

    async def put_pool(self, name: str, fields: dict[str, Any]) -> None:
        await self._pools.put(name, PoolBody(**fields))

    async def disable_pool(self, name: str) -> None:
        await self._pools.disable(name)


async def _nothing() -> None:
    pass
