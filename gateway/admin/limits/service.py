"""Limits and rules of outages, as an administrator sets them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session

from gateway.admin.use_cases import AdminStore, admin_store, must_get, must_get_owner, updating
from gateway.api.dependencies import parts_of
from gateway.catalog.tables import ModelRow
from gateway.limits.tables import Limits, NarrowLimits, OutageRow
from gateway.tenants.tables import Organization


@dataclass(frozen=True, slots=True)
class LimitService:
    """Raises ApiError 404 for an unknown scope, model or organization."""

    store: AdminStore

    async def set(self, scope: str, columns: Mapping[str, Any]) -> Limits | NarrowLimits:
        """Some limits of a scope; a None takes a limit away."""
        set_limits = self.set_narrow if "/" in scope else self.set_own
        return await set_limits(scope, columns)

    async def set_own(self, scope: str, columns: Mapping[str, Any]) -> Limits:
        """Limits of one owner, or its budget."""
        work = updating(Limits, scope, columns)
        return await self.store.change("limits.set", scope, work, **columns)

    async def set_narrow(self, scope: str, columns: Mapping[str, Any]) -> NarrowLimits:
        """Limits of one model, one end user or every end user (`*`) within an owner's scope. Where
        none is left, nothing binds them any more."""
        owner, _, narrow = scope.partition("/")
        kind, _, name = narrow.partition(":")

        def work(session: Session) -> NarrowLimits:
            must_get_owner(session, owner)
            if kind == "model":
                must_get(session, ModelRow, name)
            existing = session.get(NarrowLimits, (owner, kind, name))
            row = existing or NarrowLimits(owner=owner, kind=kind, name=name)
            row.sqlmodel_update(dict(columns))
            limits = row.model_dump(exclude={"owner", "kind", "name"}).values()
            if any(limit is not None for limit in limits):
                session.add(row)
            elif existing:
                session.delete(existing)
            return row

        return await self.store.change("limits.set", scope, work, **columns)

    async def set_outage(
        self, organization_id: str, mode: str | None, cap_nanousd: int | None
    ) -> OutageRow:
        """What becomes of an organization's calls while Redis is away; a None leaves it to whether
        there are budgets."""

        def work(session: Session) -> OutageRow:
            must_get(session, Organization, organization_id)
            existing = session.get(OutageRow, organization_id)
            row = existing or OutageRow(org_id=organization_id, mode="deny")
            if mode is None:
                if existing:
                    session.delete(existing)
                return row
            row.mode, row.cap_nanousd = mode, cap_nanousd
            session.add(row)
            return row

        return await self.store.change(
            *("outage.set", organization_id, work), mode=mode, cap_nanousd=cap_nanousd
        )


async def limits_of(request: Request) -> LimitService:
    return LimitService(admin_store(parts_of(request)))


AdminLimits = Annotated[LimitService, Depends(limits_of)]
