"""Variants of models as an administrator keeps them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from gateway.admin.models.service import Refresh
from gateway.admin.use_cases import ADMIN, AdminStore, NotThere, admin_store, attempt, must_get
from gateway.admin.variants.schemas import VariantBody
from gateway.api.dependencies import parts_of
from gateway.catalog.catalog import unreadable_because
from gateway.catalog.fit import pool_misfits, variant_misfits, variant_of
from gateway.catalog.hardware import parts_with
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.catalog.variant import ShapeFields
from gateway.catalog.weights.facts import read_shape, tokenizer_mistake
from gateway.catalog.weights.files import UnfitWeights
from gateway.errors import bad_request
from gateway.tenants.store import Conflict
from routing.types import Task


@dataclass(frozen=True, slots=True)
class VariantService:
    """Raises ApiError: 404 for an unknown variant, 409 where its model is not there, a pool has no
    room for it or still runs it, 400 for what contradicts its model or checkpoint."""

    store: AdminStore
    refresh: Refresh

    async def get(self, model: str, name: str) -> VariantRow:
        def work() -> VariantRow:
            row = self.store.tenants.one(VariantRow, (model, name))
            if row is None:
                raise NotThere(f"{model}/{name}")
            return row

        return await attempt(work)

    async def put(self, model: str, name: str, body: VariantBody) -> VariantRow:
        columns = body.model_dump() | {"shape": await self._shape(body)}
        row = VariantRow(model=model, name=name, source=ADMIN, **columns)

        def work(session: Session) -> VariantRow:
            model_row = session.get(ModelRow, model)
            if model_row is None or not model_row.enabled:
                raise Conflict(f"there is no model {model!r}")
            _require_fit(session, row, model_row, self.store.now_us)
            return session.merge(row)

        stored = await self.store.change("variant.put", f"{model}/{name}", work, **columns)
        await self.refresh()
        return stored

    async def disable(self, model: str, name: str) -> VariantRow:
        def work(session: Session) -> VariantRow:
            row = must_get(session, VariantRow, (model, name))
            if pool := session.exec(_pools_of(row)).first():
                raise Conflict(f"the pool {pool.name!r} still runs {name!r}")
            row.enabled, row.source = False, ADMIN
            session.add(row)
            return row

        row = await self.store.change("variant.disable", f"{model}/{name}", work)
        await self.refresh()
        return row

    async def _shape(self, body: VariantBody) -> dict[str, Any] | None:
        if (path := body.path) is None:
            return None if body.shape is None else body.shape.model_dump()
        reason = await attempt(lambda: unreadable_because(path, Task.EMBED))
        if reason is not None:
            raise bad_request(reason, "path")
        try:
            shape = body.shape or ShapeFields.of(await attempt(lambda: read_shape(Path(path))))
        except UnfitWeights as unfit:
            raise bad_request(f"{path}: {unfit}", "path") from unfit
        return shape.model_dump()


def _require_fit(session: Session, row: VariantRow, model: ModelRow, now_us: int) -> None:
    """Raises ApiError 400, or Conflict for a pool that has no room for it."""
    for key, words in variant_misfits(row, model.context_tokens, now_us):
        raise bad_request(f"{key}: {words}", key)
    if mistake := tokenizer_mistake(row.path, model.path):
        raise bad_request(mistake, "path")
    variant = variant_of(row, model.context_tokens)
    parts = parts_with(session.exec(select(HardwareRow).where(col(HardwareRow.enabled))).all())
    for pool in session.exec(_pools_of(row)):
        for _, words in pool_misfits(pool, {(row.model, row.name): variant}, parts):
            raise Conflict(f"the pool {pool.name!r}: {words}")


def _pools_of(row: VariantRow) -> SelectOfScalar[PoolRow]:
    of_variant = (PoolRow.model == row.model, PoolRow.variant == row.name)
    return select(PoolRow).where(*of_variant, col(PoolRow.enabled))


async def variants_of(request: Request) -> VariantService:
    parts = parts_of(request)
    return VariantService(admin_store(parts), parts.catalog.refresh)


Variants = Annotated[VariantService, Depends(variants_of)]
