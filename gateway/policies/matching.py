"""What the active policy says of a call: its rule, before prices are looked up.

Owns what the clauses read that is not in the request. A budget is asked for only where the policy
reads it, and what was found counts for FRESH_S.
"""

from collections import OrderedDict
from math import inf
from typing import Final, NamedTuple

from gateway.call.request import GeneratingRequest
from gateway.catalog.catalog import CatalogKeeper
from gateway.errors import ApiError
from gateway.limits.budgets import Bound, Standings
from gateway.policies.active import ActivePolicy
from gateway.policies.attributes import attributes_of
from gateway.tenants.auth import Principal
from routing.policy.action import Matched
from routing.policy.attributes import Attributes
from routing.policy.narrow import NO_WISH, Preferences, narrowed
from routing.policy.rules import RoutingPolicy
from routing.types import Call, Clock

FRESH_S: Final = 1.0
KEYS_MAX: Final = 4096
BUDGET: Final = "budget.remaining_usd"


class PolicyMatch(NamedTuple):
    """What the policy says of a call, and what it was asked with."""

    policy: RoutingPolicy
    attributes: Attributes
    matched: Matched
    wish: Preferences = NO_WISH


class _Left(NamedTuple):
    usd: float
    until_s: float
    own: tuple[Bound, ...]


class Matching:
    """Matches calls with the policy that is active now."""

    def __init__(
        self, active: ActivePolicy, catalog: CatalogKeeper, standings: Standings, clock: Clock
    ) -> None:
        self._active = active
        self._catalog = catalog
        self._standings = standings
        self._clock = clock
        self._left: OrderedDict[str, _Left] = OrderedDict()

    def match(
        self,
        call: Call,
        request: GeneratingRequest,
        remaining_usd: float,
        policy: RoutingPolicy | None = None,
    ) -> PolicyMatch:
        """`policy`: the one that is active, unless another one is tried."""
        catalog, policy = self._catalog.catalog, policy or self._active.current
        now_s = self._clock()
        attributes = attributes_of(call, request, catalog.params_b, remaining_usd, now_s)
        matched = policy.match(attributes)
        if (wish := request.preferences) is None:
            return PolicyMatch(policy, attributes, matched)
        providers = {pool.name: pool.provider for pool in catalog.pools if pool.provider}
        return PolicyMatch(policy, attributes, narrowed(matched, wish, providers), wish)

    def larger_models(self, policy: RoutingPolicy | None = None) -> tuple[str, ...]:
        """Every model that some rule names for calls that are too long for theirs."""
        return (policy or self._active.current).larger_models

    async def remaining_usd(
        self, principal: Principal, policy: RoutingPolicy | None = None
    ) -> float:
        """What is left of the tightest budget of a key and its owners; infinite where there is
        none, where no clause of the policy reads it, and where nobody can say it. `policy`: the one
        that is active, unless another one is tried."""
        own = principal.budgets.own
        if not own or not (policy or self._active.current).reads(BUDGET):
            return inf
        known = self._left.get(principal.key)
        if known is None or known.own is not own or known.until_s < self._clock():
            known = await self._ask(own, known)
            self._left[principal.key] = known
            if len(self._left) > KEYS_MAX:
                self._left.popitem(last=False)
        return known.usd

    async def _ask(self, own: tuple[Bound, ...], known: _Left | None) -> _Left:
        """While Redis is away, what it said last."""
        until_s = self._clock() + FRESH_S
        try:
            standings = await self._standings.of(own)
        except ApiError:
            return _Left(inf if known is None else known.usd, until_s, own)
        return _Left(min(each.left_nanousd for each in standings) / 1e9, until_s, own)
