"""Models and pools: use cases of an administrator. Blocking; each is one transaction."""

from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from gateway.admin.tenants import NotThere
from gateway.store import Conflict, TenantStore
from gateway.tables import Audit, ModelRow, PoolRow
from routing.types import Clock

FROM_ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Serving:
    store: TenantStore
    clock: Clock

    def put_model(self, name: str, fields: dict[str, Any]) -> ModelRow:
        row = ModelRow(name=name, source=FROM_ADMIN, **fields)

        def work(session: Session) -> ModelRow:
            known = session.get(ModelRow, name)
            row.created_us = known.created_us if known else self._now_us()
            return session.merge(row)

        return self.store.change(self._audit("model.put", name, fields), work)

    def pool(self, name: str) -> PoolRow:
        """Raises NotThere, also for one that is disabled."""
        row = self.store.one(PoolRow, name)
        if row is None or not row.enabled:
            raise NotThere(name)
        return row

    def put_pool(self, name: str, fields: dict[str, Any]) -> PoolRow:
        """Raises Conflict where the pool's model is not there."""
        row = PoolRow(name=name, source=FROM_ADMIN, **fields)

        def work(session: Session) -> PoolRow:
            model = session.get(ModelRow, row.model)
            if model is None or not model.enabled:
                raise Conflict(f"there is no model {row.model!r}")
            return session.merge(row)

        return self.store.change(self._audit("pool.put", name, fields), work)

    def disable_pool(self, name: str) -> PoolRow:
        def work(session: Session) -> PoolRow:
            row = session.get(PoolRow, name)
            if row is None:
                raise NotThere(name)
            row.enabled, row.source = False, FROM_ADMIN
            session.add(row)
            return row

        return self.store.change(self._audit("pool.disable", name, {}), work)

    def disable_model(self, name: str) -> ModelRow:
        """Raises Conflict while a pool still serves it."""

        def work(session: Session) -> ModelRow:
            row = session.get(ModelRow, name)
            if row is None:
                raise NotThere(name)
            serving = select(PoolRow).where(PoolRow.model == name, col(PoolRow.enabled))
            if session.exec(serving).first():
                raise Conflict(f"a pool still serves {name!r}")
            row.enabled, row.source = False, FROM_ADMIN
            session.add(row)
            return row

        return self.store.change(self._audit("model.disable", name, {}), work)

    def _audit(self, action: str, name: str, detail: dict[str, Any]) -> Audit:
        return Audit(at_us=self._now_us(), actor="admin", action=action, object=name, detail=detail)

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)
