"""Which key of its provider's account a call of an external pool goes with.

A key is left out while its breaker is open, it cools down, its limits are reached, or nothing is
known that it names. Of the others each has its share. Chosen anew for each attempt, so a key that
came or went a moment ago counts for the next one, and an attempt that runs keeps its own.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gateway.catalog.external import LITELLM, ExternalRules
from gateway.health.breakers import Breakers, key_scopes
from gateway.providers.key import KeyTurns, ProviderKey
from gateway.providers.key_limits import KeyLimits
from routing.types import Clock, Pool

KEYED_MAX = 10_000


class KeyedPool(NamedTuple):
    """A pool, and the key that an attempt there goes with. None: its own, or none at all."""

    pool: Pool
    key: ProviderKey | None = None


def place_of_key(pool_name: str, key_name: str) -> str:
    return f"external:{pool_name}/{key_name}"


class ProviderKeys:
    def __init__(
        self,
        keys_of: Callable[[Pool], Sequence[ProviderKey]],
        rules: ExternalRules,
        environment: Mapping[str, str],
        breakers: Breakers,
        limits: KeyLimits,
        clock: Clock,
    ) -> None:
        """`keys_of` says which keys its account has for a pool; none: its own counts."""
        self._keys_of = keys_of
        self._rules = rules
        self.secrets = environment
        self._breakers = breakers
        self.limits = limits
        self._clock = clock
        self._turns: dict[tuple[str, str | None], KeyTurns] = {}
        self._keyed: dict[tuple[str, str], tuple[Pool, Pool]] = {}

    def why_unusable(self, pool: Pool) -> str | None:
        """Why an external pool takes no call. One whose account has several keys needs one."""
        keys = self._keys_of(pool)
        names: list[str | None] = [key.name for key in keys] if keys else [pool.api_key_env]
        reasons = [self._why_not(pool, name) for name in names]
        return None if None in reasons else reasons[0]

    def is_set(self, name: str) -> bool:
        """Whether this gateway knows what a name holds, and a header can carry it."""
        held = self.secrets.get(name)
        return bool(held and held.isascii() and held.isprintable())

    def any_of(self, pool: Pool) -> Pool:
        """With the first key that can be used, for a call that is none of a tenant's."""
        keys = self._keys_of(pool)
        able = [key for key in keys if self._why_not(pool, key.name) is None]
        if not keys or any(key.name == pool.api_key_env for key in able):
            return pool
        return self.with_key(pool, (able or keys)[0].name)

    def next(
        self, pool: Pool, tokens: int, avoided: Mapping[str, float], most_s: float
    ) -> KeyedPool | float:
        """The pool with the key whose turn it is, or the seconds until one may be used; inf: longer
        than the call waits, which is `most_s` where a place cools down."""
        keys = self._keys_of(pool)
        if not keys:
            return self._breakers.wait_s(key_scopes(pool), most_s) or KeyedPool(pool)
        waits = [(key, self._wait_s(pool, key, tokens, avoided, most_s)) for key in keys]
        able = {key.name: key for key, wait_s in waits if wait_s <= 0}
        if not able:
            return min(wait_s for _, wait_s in waits)
        turns = self._turns.setdefault((pool.provider or "", pool.region), KeyTurns())
        name = turns.next({name: key.share for name, key in able.items()})
        return KeyedPool(self.with_key(pool, name), able[name])

    def with_key(self, pool: Pool, name: str) -> Pool:
        """The same one for the same pool: to copy one takes longer than to look."""
        place = pool.name, name
        before, keyed = self._keyed.get(place, (None, None))
        if keyed is None or before is not pool:
            if len(self._keyed) >= KEYED_MAX:
                self._keyed.clear()
            keyed = replace(pool, api_key_env=name)
            self._keyed[place] = pool, keyed
        return keyed

    def _wait_s(
        self,
        pool: Pool,
        key: ProviderKey,
        tokens: int,
        avoided: Mapping[str, float],
        most_s: float,
    ) -> float:
        if not (pool.adapter == LITELLM or self.is_set(key.name)):
            return math.inf
        scopes = key_scopes(pool, key.name)
        left_s = avoided.get(place_of_key(pool.name, key.name), 0.0) - self._clock()
        return max(left_s, self._breakers.wait_s(scopes, most_s), self.limits.wait_s(key, tokens))

    def _why_not(self, pool: Pool, name: str | None) -> str | None:
        """The key of a pool that has an adapter is in `sluice providers` alone."""
        environment = None if pool.adapter == LITELLM else self.secrets
        return self._rules.why_unusable(pool.base_url, name, environment)
