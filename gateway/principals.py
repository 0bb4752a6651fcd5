"""Keys in SQL as the directory of keys asks for them: rows in, principals out.

Every statement runs beside the event loop; a database out of reach is a 503, never a 401.
"""

import asyncio
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from billing.limits.types import ScopeLimits
from gateway.auth import Leave, Principal
from gateway.errors import overloaded
from gateway.store import KnownKey, TenantStore
from routing.types import CapacityClass, Tier

Found = TypeVar("Found")
Word = TypeVar("Word", bound=StrEnum)


class StoredKeys:
    def __init__(self, store: TenantStore) -> None:
        self._store = store

    async def find(self, digest: bytes) -> Principal | None:
        found = await _beside(lambda: self._store.key_by_hash(digest))
        return None if found is None else principal_of(found)

    async def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        return await _beside(lambda: self._store.secrets_since(created_us))


async def _beside(read: Callable[[], Found]) -> Found:
    try:
        return await asyncio.to_thread(read)
    except SQLAlchemyError as away:
        raise overloaded("Keys cannot be looked up right now.", retry_after_s=1.0) from away


def principal_of(known: KnownKey) -> Principal:
    key = known.key
    names = (f"key:{key.id}", f"project:{key.project_id}", f"org:{key.org_id}")
    limits = {scope: row.model_dump() for scope, row in known.limits.items()}
    rows = known.entitlements.values()
    return Principal(
        organization=key.org_id,
        project=key.project_id,
        key=key.id,
        scopes=tuple(ScopeLimits(**limits.get(name, {"scope": name})) for name in names),
        expires_s=known.expires_us / 1e6 if known.expires_us is not None else None,
        is_active=known.is_active,
        leave=Leave(
            models=_narrowest(row.models for row in rows),
            tiers=_words(Tier, _narrowest(row.tiers for row in rows)),
            capacity_classes=_words(CapacityClass, _narrowest(r.capacity_classes for r in rows)),
        ),
    )


def _narrowest(allowed: Iterable[list[str] | None]) -> frozenset[str] | None:
    """What all of them allow; None if none of them says anything."""
    said = [frozenset(names) for names in allowed if names is not None]
    return frozenset.intersection(*said) if said else None


def _words(kind: type[Word], names: frozenset[str] | None) -> frozenset[Word] | None:
    return None if names is None else frozenset(map(kind, names))
