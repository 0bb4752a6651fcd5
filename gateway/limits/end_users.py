"""Which limits and budgets a call is under: those of its key, project and organization, of the
model it is for, and of the end user it is made for.

An end user is known to Redis and to records by a digest only. Where limits or hard budgets of end
users are set, a call has to say whom it is made for: a cap that is evaded by leaving out a field is
none.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from billing.budgets.budget import Budget, digest_of
from billing.limits.types import ScopeLimits
from gateway.errors import ApiError, bad_request
from gateway.limits.budgets import Bound, KeyBudgets, of_user
from gateway.tenants.auth import ANY, Narrow, Principal

CACHE_USERS_MAX = 10_000


class UserLimits(Protocol):
    async def limits_of_user(self, owners: Sequence[str], name: str) -> tuple[ScopeLimits, ...]:
        """The limits that owners have set for one end user alone; raises ApiError 503."""
        ...

    async def budgets_of_user(self, owners: Sequence[str], name: str) -> tuple[Budget, ...]:
        """The budgets that owners have made for one end user alone; raises ApiError 503."""
        ...


class EndUsers:
    """Remembers the limits of the end users seen last, for as long as their key is cached."""

    def __init__(self, stored: UserLimits) -> None:
        self._stored = stored
        self._bound: OrderedDict[tuple[str, str], tuple[KeyBudgets, tuple[Bound, ...]]] = (
            OrderedDict()
        )
        self._cache: OrderedDict[tuple[str, str], tuple[Narrow, tuple[ScopeLimits, ...]]] = (
            OrderedDict()
        )

    async def scopes_of(
        self, principal: Principal, model: str, end_user: str | None, param: str
    ) -> tuple[ScopeLimits, ...]:
        """Every scope whose limits bind the call. `param` is the field that names the end user.

        Raises ApiError 400 where an end user has to be named and is not.
        """
        narrow = principal.narrow
        if narrow is ANY:
            return principal.scopes
        scopes = principal.scopes + narrow.models.get(model, ())
        if not narrow.asks_for_user:
            return scopes
        if not end_user:
            raise end_user_required(param)
        return scopes + await self._user(principal, end_user)

    async def budgets_of(
        self, principal: Principal, end_user: str | None, param: str
    ) -> tuple[Bound, ...]:
        """Every budget that binds the call, with what its cost stands under.

        Raises ApiError 400 where an end user has to be named and is not.
        """
        budgets = principal.budgets
        if not budgets.are_of_users:
            return budgets.own
        if not end_user:
            if budgets.ask_for_user:
                raise end_user_required(param)
            return budgets.own
        place = principal.key, end_user
        entry = self._bound.get(place)
        if entry is None or entry[0] is not budgets:
            apart = await self._apart(principal, end_user)
            entry = budgets, of_user(budgets.every_user, apart, digest_of(end_user))
            self._bound[place] = entry
            if len(self._bound) > CACHE_USERS_MAX:
                self._bound.popitem(last=False)
        self._bound.move_to_end(place)
        return budgets.own + entry[1]

    async def _apart(self, principal: Principal, end_user: str) -> tuple[Budget, ...]:
        if not principal.budgets.has_users_apart:
            return ()
        owners = [limits.scope for limits in principal.scopes]
        return await self._stored.budgets_of_user(owners, end_user)

    async def _user(self, principal: Principal, end_user: str) -> tuple[ScopeLimits, ...]:
        place = principal.key, end_user
        entry = self._cache.get(place)
        if entry is not None and entry[0] is principal.narrow:
            self._cache.move_to_end(place)
            return entry[1]
        limits = await self._limits(principal, end_user)
        self._cache[place] = principal.narrow, limits
        self._cache.move_to_end(place)
        if len(self._cache) > CACHE_USERS_MAX:
            self._cache.popitem(last=False)
        return limits

    async def _limits(self, principal: Principal, end_user: str) -> tuple[ScopeLimits, ...]:
        """An end user's own limits stand instead of those that an owner has for every one."""
        narrow = principal.narrow
        own: tuple[ScopeLimits, ...] = ()
        if narrow.has_users_apart:
            owners = [limits.scope for limits in principal.scopes]
            own = await self._stored.limits_of_user(owners, end_user)
        apart = {limits.scope for limits in own}
        others = tuple(limits for limits in narrow.every_user if limits.scope not in apart)
        digest = digest_of(end_user)
        return tuple(replace(limits, scope=limits.scope + digest) for limits in own + others)


def end_user_required(param: str) -> ApiError:
    return bad_request(
        f"Calls of this key are limited for each end user: say in '{param}' whom this one is for.",
        param,
        "end_user_required",
    )
