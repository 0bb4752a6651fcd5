"""Keys in SQL as the directory of keys asks for them: rows in, principals out.

Every statement runs beside the event loop; a database out of reach is a 503, never a 401.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError

from billing.budgets.budget import Budget
from billing.limits.types import ScopeLimits
from gateway.errors import QuotaStatus, overloaded
from gateway.limits.budgets import KeyBudgets
from gateway.limits.tables import NarrowLimits, OutageRow
from gateway.tenants.auth import (
    ANY,
    CACHE_KEYS_MAX,
    Narrow,
    OutageMode,
    OutageRule,
    Principal,
)
from gateway.tenants.billing_modes import PREPAID
from gateway.tenants.entitlement import leave_of
from gateway.tenants.store import USER, KnownKey, TenantStore
from gateway.tenants.tables import Organization

NAME_CHARS = "/:@+"
"""What a scope may hold beside letters, digits and `_.-~`."""
Value = TypeVar("Value")


class StoredKeys:
    def __init__(self, store: TenantStore) -> None:
        self._store = store

    async def find(self, digest: bytes) -> Principal | None:
        key = await _beside(lambda: self._store.key_by_hash(digest))
        return None if key is None else principal_of(key)

    async def limits_of_user(self, owners: Sequence[str], name: str) -> tuple[ScopeLimits, ...]:
        """The limits that owners have set for one end user alone; the scopes lack the user."""
        return _narrowed(await _beside(lambda: self._store.limits_of_user(owners, name)))

    async def budgets_of_user(self, owners: Sequence[str], name: str) -> tuple[Budget, ...]:
        """The budgets that owners have made for one end user alone."""
        return tuple(await _beside(lambda: self._store.budgets_of_user(owners, name)))

    async def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        return await _beside(lambda: self._store.secrets_since(created_us))


async def _beside(read: Callable[[], Value]) -> Value:
    try:
        return await asyncio.to_thread(read)
    except SQLAlchemyError as away:
        raise overloaded("Keys cannot be looked up right now.", retry_after_s=1.0) from away


def principal_of(owner_of_key: KnownKey) -> Principal:
    key = owner_of_key.key
    names = (f"key:{key.id}", f"project:{key.project_id}", f"org:{key.org_id}")
    limits = {scope: row.model_dump() for scope, row in owner_of_key.limits.items()}
    scopes = _same(tuple(ScopeLimits(**limits.get(name, {"scope": name})) for name in names))
    may_owe = may_owe_nanousd(owner_of_key.organization)
    return Principal(
        organization=key.org_id,
        project=key.project_id,
        key=key.id,
        scopes=scopes,
        expires_s=owner_of_key.expires_us / 1e6 if owner_of_key.expires_us is not None else None,
        is_active=owner_of_key.is_active,
        leave=leave_of(owner_of_key.entitlements.values()),
        narrow=_narrow(owner_of_key)
        if owner_of_key.narrow or owner_of_key.has_users_apart
        else ANY,
        outage=_outage(
            owner_of_key.outage, scopes, owner_of_key.budgets, has_ceiling=may_owe is not None
        ),
        may_owe_nanousd=may_owe,
        quota_status=QuotaStatus(owner_of_key.organization.insufficient_quota_status),
        budgets=owner_of_key.budgets,
        tier=owner_of_key.organization.tier or "",
    )


def may_owe_nanousd(organization: Organization) -> int | None:
    """What an organization may owe beyond its credits; None is whatever it comes to."""
    limit = organization.credit_limit_nanousd
    return 0 if limit is None and organization.settlement_mode == PREPAID else limit


@lru_cache(CACHE_KEYS_MAX)
def _same(scopes: tuple[ScopeLimits, ...]) -> tuple[ScopeLimits, ...]:
    """The tuple that was read before, if it says the same: what is kept by it (its contract) is
    found at every call by looking whether it is the one, and not what each of its limits says."""
    return scopes


def _narrow(owner_of_key: KnownKey) -> Narrow:
    models = {row.name for row in owner_of_key.narrow if row.kind != USER}
    return Narrow(
        models={
            model: _narrowed(r for r in owner_of_key.narrow if r.kind != USER and r.name == model)
            for model in models
        },
        every_user=_narrowed(row for row in owner_of_key.narrow if row.kind == USER),
        has_users_apart=owner_of_key.has_users_apart,
    )


def _narrowed(rows: Iterable[NarrowLimits]) -> tuple[ScopeLimits, ...]:
    """Rows as limits. The scope of a model names it; that of an end user ends where the digest of
    the user goes."""
    return tuple(_narrow_scope(row) for row in rows)


def _narrow_scope(row: NarrowLimits) -> ScopeLimits:
    name = "" if row.kind == USER else quote(row.name, safe=NAME_CHARS)
    limits = row.model_dump(exclude={"owner", "kind", "name"})
    return ScopeLimits(scope=f"{row.owner}/{row.kind}:{name}", is_narrow=True, **limits)


def _outage(
    declared: OutageRow | None,
    scopes: Sequence[ScopeLimits],
    budgets: KeyBudgets,
    *,
    has_ceiling: bool,
) -> OutageRule:
    """Who has no budget and no ceiling is served within limits of each gateway's own; money that
    must not be overspent is not risked, unless its owner says so."""
    if declared is not None:
        return OutageRule(OutageMode(declared.mode), declared.cap_nanousd)
    has_budget = budgets.are_hard or any(limits.budget_nanousd is not None for limits in scopes)
    is_bound = has_ceiling or has_budget
    return OutageRule(OutageMode.DENY if is_bound else OutageMode.LOCAL)
