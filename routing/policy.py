"""`decide`: which pools a call should try, in which order, and why.

Pure: a call, a fleet snapshot, a policy and a source of chance give a Decision or a Refusal.
Guards law 5 (same inputs, same decision) and the rule that every candidate has a reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from routing import cost
from routing.filters import Ruling, Weighed, ruling
from routing.scorers import TierRule, score
from routing.types import (
    AUTO_MODEL,
    Call,
    Candidate,
    Decision,
    FleetSnapshot,
    PoolState,
    Refusal,
    RefusalKind,
    Tier,
)

CURABLE_FIRST = (
    RefusalKind.DEADLINE,
    RefusalKind.CAPACITY,
    RefusalKind.CONTEXT_LENGTH,
    RefusalKind.FORBIDDEN,
    RefusalKind.NO_POOL,
)
INCURABLE = (RefusalKind.CONTEXT_LENGTH, RefusalKind.FORBIDDEN)
CAPACITY_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class Policy:
    """What each tier pays for time, quality and safety; data, versioned by `revision`."""

    revision: int
    tiers: Mapping[Tier, TierRule]


def decide(call: Call, snapshot: FleetSnapshot, policy: Policy, rng: Random) -> Decision | Refusal:
    """Weigh every pool of the call's models; the cheapest all told comes first.

    Ties are broken by `rng`, so that equal pools share the load.
    """
    states = [s for s in snapshot.pools if s.pool.model in call.models]
    verdicts = [_weigh(call, state, snapshot, policy, rng) for state in states]
    candidates = tuple([c for _, _, c in sorted(verdicts, key=lambda verdict: verdict[0])])
    if candidates and candidates[0].eligible:  # those that were ruled out stand last
        rule = f"{call.tier}/{'auto' if call.model_requested == AUTO_MODEL else 'named'}"
        return Decision(rule=rule, policy_revision=policy.revision, candidates=candidates)
    return _refusal(call, [(r, c) for _, r, c in verdicts if r], candidates)


_Order = tuple[bool, int, float]


def _weigh(
    call: Call, state: PoolState, snapshot: FleetSnapshot, policy: Policy, rng: Random
) -> tuple[_Order, Ruling | None, Candidate]:
    pool, now_s = state.pool, snapshot.at_s
    wait_s = cost.wait_s(state, call, now_s)
    weighed = Weighed(state, snapshot.models[pool.model], call, wait_s, now_s)
    against = ruling(weighed)
    priced = score(weighed, policy.tiers[call.tier])
    total_nanousd = priced.total_nanousd
    candidate = Candidate(
        pool=pool.name,
        model=pool.model,
        variant=pool.variant,
        capacity_class=pool.capacity_class,
        tier=call.tier,
        eligible=against is None,
        score_nanousd=total_nanousd,
        cost_nanousd=priced.cost_nanousd,
        wait_s=round(wait_s, 3),
        reason=against.reason if against else f"{_readiness(weighed)}: {priced.words()}",
    )
    return (against is not None, total_nanousd, rng.random()), against, candidate


def _readiness(weighed: Weighed) -> str:
    if weighed.state.pool.is_external:
        return "external"
    if weighed.wait_s == 0:
        return "warm"
    return f"ready in about {weighed.wait_s:.1f} s"


def _refusal(
    call: Call,
    against: list[tuple[Ruling, Candidate]],
    candidates: tuple[Candidate, ...],
) -> Refusal:
    """What time may cure speaks first; `retry_after_s` is when the soonest such pool can begin."""
    kinds = {ruling.kind for ruling, _ in against}
    kind = next((k for k in CURABLE_FIRST if k in kinds), RefusalKind.NO_POOL)
    said = [(r.reason, c.wait_s) for r, c in against if r.kind is kind]
    reason = said[0][0] if said else "no pool serves this model"
    soonest_s = min((wait_s for _, wait_s in said), default=CAPACITY_RETRY_S)
    retry_after_s = None if kind in INCURABLE else max(1.0, soonest_s)
    late = [(c.wait_s, c.pool) for r, c in against if r.kind is RefusalKind.DEADLINE]
    return Refusal(
        kind,
        f"{call.model_requested}: {reason}",
        retry_after_s,
        candidates,
        soonest_pool=min(late)[1] if late else None,
    )
