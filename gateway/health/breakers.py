"""The breakers of this gateway: of replicas, of servers outside, and of their providers' accounts.

Every attempt is a visit, which tells how it ended. A place that never failed has no breaker here,
and where no place has one, none is looked for. Does no input or output: other gateways are told of
what changed, and heard, by `shared.py`.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from routing.health.breaker import (
    OF_A_PLACE,
    OF_AN_ACCOUNT,
    Breaker,
    BreakerRules,
    BreakerState,
    HealthReport,
    Told,
)
from routing.health.failures import Failure, FailureKind
from routing.types import Clock, Pool, PoolHealth, PoolState, ReplicaState

PROBE_PAUSE_S = 0.25
"""Before a call asks again for a place whose probes are out."""
BREAKERS_MAX = 10_000
_ACCOUNT, _POOL, _REPLICA = "account:", "pool:", "replica:"

Scopes = tuple[str, ...]
"""Names of breakers: of a place, of one of several keys at it, and of the account that it is asked
on, each if it has one."""


def account_scope(pool: Pool) -> str | None:
    """Of a provider, region and key. None: the pool names no provider."""
    if not pool.is_external or not pool.provider:
        return None
    return f"{_ACCOUNT}{pool.provider}/{pool.region or '-'}/{pool.api_key_env or '-'}"


def pool_scope(pool_name: str) -> str:
    return _POOL + pool_name


def replica_scope(replica_id: str) -> str:
    return _REPLICA + replica_id


def key_scopes(pool: Pool, key: str | None = None) -> Scopes:
    """With one of the keys of its provider's account. None: with its own."""
    if key is None:
        return outside_scopes(pool)
    own = pool_scope(pool.name)
    return (own, f"{own}/{key}", f"{_ACCOUNT}{pool.provider}/{pool.region or '-'}/{key}")


def outside_scopes(pool: Pool) -> Scopes:
    account = account_scope(pool)
    own = pool_scope(pool.name)
    return (own,) if account is None else (own, account)


class Visit:
    """One attempt at a place, until it has ended. A probe takes one of few places until then."""

    __slots__ = ("_breakers", "_is_open", "_probes", "_scopes", "_sent_s")

    def __init__(self, breakers: "Breakers", scopes: Scopes, probes: Scopes, sent_s: float) -> None:
        self._breakers = breakers
        self._scopes = scopes
        self._probes = probes
        self._sent_s = sent_s
        self._is_open = True

    def answered(self) -> None:
        """Its first token is here."""
        if self._breakers.by_scope:
            self._breakers.tell(self._scopes, self._sent_s, None, None)
        self.end()

    def failed(self, failure: Failure) -> None:
        """What fails after its first token had begun: the place works."""
        if self._is_open:
            self._breakers.tell(self._scopes, self._sent_s, failure.kind, failure.retry_after_s)
        self.end()

    def end(self) -> None:
        """However it ended, and once."""
        if self._is_open:
            self._is_open = False
            if self._probes:
                self._breakers.probe_ended(self._probes)


class Breakers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}
        self._probes: Counter[str] = Counter()
        self.untold: dict[str, HealthReport] = {}
        """What other gateways do not know yet."""
        self.openings: Counter[tuple[str, str]] = Counter()
        """How often breakers opened here, by kind of scope and reason."""

    @property
    def by_scope(self) -> Mapping[str, Breaker]:
        return self._breakers

    def visit(self, scopes: Scopes, *, is_last_resort: bool = False) -> Visit | None:
        """None where the place is left alone or enough probes are out, unless no other is there."""
        if not self._breakers:
            return Visit(self, scopes, (), self._clock())
        if self._wait_s(scopes) > 0 and not is_last_resort:
            return None
        probes = tuple([each for each in scopes if self._is_half_open(each)])
        self._probes.update(probes)
        return Visit(self, scopes, probes, self._clock())

    def wait_s(self, scopes: Scopes, most_s: float) -> float:
        """Seconds until a call may ask for the place, 0: now. Inf: longer than it waits, which is
        `most_s` where the place cools down; one that has failed is not waited for."""
        wait_s = self._wait_s(scopes) if self._breakers else 0.0
        return math.inf if wait_s > most_s else wait_s

    def tell(
        self,
        scopes: Scopes,
        sent_s: float,
        kind: FailureKind | None,
        retry_after_s: float | None,
    ) -> None:
        """What came of an attempt, told to the breakers that it says something of."""
        for scope in scopes:
            if kind is None and scope not in self._breakers:
                continue
            if kind is not None and not _concerns(scope, kind, scopes):
                continue
            told = Told(self._clock(), sent_s, kind, retry_after_s)
            self._set(scope, self._of(scope).after(told, _rules(scope)))

    def probe_ended(self, probes: Scopes) -> None:
        for scope in probes:
            self._probes[scope] -= 1
            if self._probes[scope] <= 0:
                del self._probes[scope]

    def hear(self, scope: str, report: HealthReport) -> None:
        """What another gateway found out."""
        self._put(scope, self._of(scope).hears(report))

    def forget(self, replicas: Collection[str]) -> None:
        """Breakers that say nothing any more, and of replicas that are not there."""
        now_s = self._clock()
        for scope, breaker in [*self._breakers.items()]:
            is_gone = scope.startswith(_REPLICA) and scope[len(_REPLICA) :] not in replicas
            if is_gone or breaker.is_forgettable(now_s, _rules(scope)):
                del self._breakers[scope]

    # --- what decisions and people are told ------------------------------------------------------

    def with_health(self, state: PoolState, keys: Sequence[str] = ()) -> PoolState:
        """The state with what its breakers say now; a pool of replicas is ill where all of its
        warm ones are, and one of an account with several `keys` where it is by each."""
        if not self._breakers:
            return state
        health = self.health_of(state, keys)
        return state if health is None else replace(state, health=health)

    def health_of(self, state: PoolState, keys: Sequence[str] = ()) -> PoolHealth | None:
        """None: nothing is against it."""
        if state.pool.is_external:
            return self.health_outside(state.pool, keys)
        warm = [each.id for each in state.replicas if each.state is ReplicaState.WARM]
        each = [self.health((replica_scope(replica),)) for replica in warm]
        ill = [health for health in each if health is not None and health.is_left_alone]
        if not ill or len(ill) < len(warm):
            return None
        return min(ill, key=lambda health: health.until_s or 0.0)

    def health_outside(self, pool: Pool, keys: Sequence[str] = ()) -> PoolHealth | None:
        """That of the key that can be used, or can be the soonest."""
        each = [self.health(key_scopes(pool, key)) for key in keys or (None,)]
        ill = [health for health in each if health is not None]
        return min(ill, key=_badness) if len(ill) == len(each) else None

    def left_alone(self, replicas: Iterable[str]) -> list[str]:
        """Of these, the replicas that are not to be asked now."""
        if not self._breakers:
            return []
        return [each for each in replicas if self._wait_s((replica_scope(each),)) > 0]

    def health(self, scopes: Scopes) -> PoolHealth | None:
        """The worst of these breakers. None: nothing is against the place."""
        now_s = self._clock()
        known = [(self._breakers[each], _rules(each)) for each in scopes if each in self._breakers]
        share = min((breaker.share(now_s, rules) for breaker, rules in known), default=1.0)
        waits = [(breaker.next_probe_s(now_s) or 0.0, breaker) for breaker, _ in known]
        until_s, worst = max(waits, key=lambda wait: wait[0], default=(0.0, None))
        if worst is None:
            return None
        if not until_s:
            half_open = [each for each, _ in known if each.openings]
            if half_open:
                return PoolHealth(BreakerState.HALF_OPEN, half_open[0].reason)
            state, shown = BreakerState.CLOSED, round(share, 1)
            return None if shown >= 1 else PoolHealth(state, worst.reason, share=shown)
        return PoolHealth(worst.state(now_s), _reason(worst, now_s), until_s)

    # --- inside ----------------------------------------------------------------------------------

    def _wait_s(self, scopes: Scopes) -> float:
        wait_s, now_s = 0.0, self._clock()
        for scope in scopes:
            breaker = self._breakers.get(scope)
            if breaker is None:
                continue
            match breaker.state(now_s):
                case BreakerState.OPEN:
                    return math.inf
                case BreakerState.COOLING:
                    wait_s = max(wait_s, breaker.cooling_until_s - now_s)
                case BreakerState.HALF_OPEN if self._probes[scope] >= breaker.probes_max:
                    wait_s = max(wait_s, PROBE_PAUSE_S)
                case _:
                    pass
        return wait_s

    def _is_half_open(self, scope: str) -> bool:
        breaker = self._breakers.get(scope)
        return breaker is not None and breaker.openings > 0

    def _of(self, scope: str) -> Breaker:
        return self._breakers.get(scope, _NEW)

    def _set(self, scope: str, breaker: Breaker) -> None:
        before = self._of(scope)
        self._put(scope, breaker)
        if breaker.report != before.report:
            self.untold[scope] = breaker.report
        if breaker.openings > before.openings:
            kind = scope.partition(":")[0]
            self.openings[kind, breaker.reason.value if breaker.reason else ""] += 1

    def _put(self, scope: str, breaker: Breaker) -> None:
        """Beyond the bound a new place has none."""
        if scope in self._breakers or len(self._breakers) < BREAKERS_MAX:
            self._breakers[scope] = breaker


_NEW = Breaker()


def _rules(scope: str) -> BreakerRules:
    return OF_AN_ACCOUNT if scope.startswith(_ACCOUNT) else OF_A_PLACE


def _badness(health: PoolHealth) -> tuple[bool, float]:
    return health.is_left_alone, health.until_s or 0.0


def _concerns(scope: str, kind: FailureKind, scopes: Scopes) -> bool:
    """A refusal of our account is told to its breaker alone, if there is one; what is of one pool
    or one answer says nothing of the account. Of several keys one cools down alone."""
    has_account = scopes[-1].startswith(_ACCOUNT)
    if kind is FailureKind.REFUSED_US:
        return scope == scopes[-1]
    is_of_key = len(scopes) > 2 and scope == scopes[1]
    if is_of_key or (len(scopes) > 2 and kind is FailureKind.COOL_DOWN):
        return is_of_key and kind is FailureKind.COOL_DOWN
    if kind in (FailureKind.NOT_THERE, FailureKind.CUT, FailureKind.COOL_DOWN):
        return not (has_account and scope == scopes[-1])
    return True


def _reason(breaker: Breaker, now_s: float) -> FailureKind | None:
    is_open = breaker.state(now_s) is BreakerState.OPEN
    return breaker.reason if is_open else FailureKind.COOL_DOWN
