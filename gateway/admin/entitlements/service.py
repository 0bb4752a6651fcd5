"""What scopes may use, as an administrator says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session

from gateway.admin.use_cases import AdminStore, admin_store, updating
from gateway.api.dependencies import parts_of
from gateway.catalog.tables import ModelRow, PoolRow
from gateway.errors import bad_request
from gateway.tenants.tables import Entitlement


@dataclass(frozen=True, slots=True)
class EntitlementService:
    """Raises ApiError 404 for an unknown scope."""

    store: AdminStore

    async def set(self, scope: str, columns: Mapping[str, Any]) -> Entitlement:
        """A None takes a restriction away. Raises ApiError 400 for a model or pool that there is
        not, and never was."""
        update = updating(Entitlement, scope, columns)

        def work(session: Session) -> Entitlement:
            for field, kind in (("models", ModelRow), ("pools", PoolRow)):
                for name in columns.get(field) or ():
                    if session.get(kind, name) is None:
                        raise bad_request(f"There is no {field[:-1]} '{name}'.", field)
            return update(session)

        return await self.store.change("entitlement.set", scope, work, **columns)


async def entitlements_of(request: Request) -> EntitlementService:
    return EntitlementService(admin_store(parts_of(request)))


Entitlements = Annotated[EntitlementService, Depends(entitlements_of)]
