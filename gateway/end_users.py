"""Which limits a call is under: those of its key, project and organization, of the model it is for,
and of the end user it is made for.

An end user is known to Redis and to records by a digest only. Where limits of end users are set, a
call has to say whom it is made for: a cap that is evaded by leaving out a field is none.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from billing.limits.types import ScopeLimits
from gateway.auth import ANY, Narrow, Principal
from gateway.errors import ApiError, bad_request

CACHE_USERS_MAX = 10_000
DIGEST_CHARS = 32


class UserLimits(Protocol):
    async def limits_of_user(self, owners: Sequence[str], name: str) -> tuple[ScopeLimits, ...]:
        """The limits that owners have set for one end user alone; raises ApiError 503."""
        ...


class EndUsers:
    """Remembers the limits of the end users seen last, for as long as their key is cached."""

    def __init__(self, kept: UserLimits) -> None:
        self._kept = kept
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

    async def _user(self, principal: Principal, end_user: str) -> tuple[ScopeLimits, ...]:
        place = principal.key, end_user
        found = self._cache.get(place)
        if found is not None and found[0] is principal.narrow:
            self._cache.move_to_end(place)
            return found[1]
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
            own = await self._kept.limits_of_user(owners, end_user)
        apart = {limits.scope for limits in own}
        others = tuple(limits for limits in narrow.every_user if limits.scope not in apart)
        digest = hashlib.sha256(end_user.encode("utf-8", "surrogatepass")).hexdigest()
        return tuple(
            replace(limits, scope=limits.scope + digest[:DIGEST_CHARS]) for limits in own + others
        )


def end_user_required(param: str) -> ApiError:
    return bad_request(
        f"Calls of this key are limited for each end user: say in '{param}' whom this one is for.",
        param,
        "end_user_required",
    )
