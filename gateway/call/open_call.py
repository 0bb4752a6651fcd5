"""One admitted call: what was taken for it, what it used so far, and what it will be charged.

The object that steps 5 to 8 of the journey share. It observes and adds up; what is written to
Redis and to the spool is made from it in `gateway/call/admission.py`. Times are epoch microseconds
where a name ends in `_us`.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from billing.limits.types import Dimension, HardBudget, RateState, ScopeLimits
from billing.prices.book import Prices
from billing.prices.rating import Charge, hold_for, rate
from billing.types import (
    Attempt,
    AttemptKind,
    CallStatus,
    OpenedCall,
    Route,
    SettledCall,
    Usage,
    UsageCheckpoint,
    UsageSource,
    recorded,
)
from gateway.call.attempt import Counted, OpenAttempt
from gateway.call.meter import Meter
from gateway.call.wait import PlaceWait
from gateway.limits.budgets import Bound
from gateway.moves.continuation import Continuation
from gateway.tenants.auth import Principal
from gateway.upstream.answer import Saturated, Unreachable
from routing.candidates import reason_of
from routing.replicas.blocks import NO_BEGINNING, Beginning
from routing.types import Call, Candidate, CapacityClass, Decision

NOTHING_DISPATCHED = (Unreachable.outcome, Saturated.outcome)


class Quote(msgspec.Struct, frozen=True):
    """The retail prices of every model the call may end on, all of one tier and version."""

    version_id: str
    prices: dict[str, Prices]

    def hold_nanousd(self, call: Call, output_tokens: int) -> int:
        """The dearest of the call's models: an upper bound of any charge with that much output."""
        return max([self.hold_of(call, model, output_tokens) for model in call.models])

    def hold_of(self, call: Call, model: str, output_tokens: int) -> int:
        """Nano-USD for the prompt and that much output of one model."""
        return hold_for(
            call.prompt_tokens[model],
            output_tokens,
            self.prices[model],
            call.unit,
            call.units.get(model, 0),
        )


def granted_at_first(call: Call, decision: Decision, slice_tokens: int) -> int:
    """Output tokens that are held for a call from the beginning: a slice of them where it goes to
    our own workers, who count as they go, and all of them where it goes to a server outside, which
    says at the end what it used."""
    most = call.output_tokens_max
    if decision.chosen.capacity_class is CapacityClass.EXTERNAL:
        return most
    return min(most, slice_tokens)


def route_of(decision: Decision, taken: Candidate) -> Route:
    """By which rule a call goes, and why to this candidate."""
    matched = decision.matched
    return Route(
        rule=matched.rule,
        policy_revision=matched.policy_revision,
        is_canary=matched.is_canary,
        reason=reason_of(decision.candidates, taken),
    )


class OpenCall(msgspec.Struct):
    principal: Principal
    call: Call
    quote: Quote
    decision: Decision
    opened: OpenedCall
    scopes: tuple[ScopeLimits, ...]
    """Every scope whose limits bind it: those of each model that it went to, too."""
    output_tokens_granted: int
    untold_scopes: tuple[ScopeLimits, ...] = ()
    """Those of its scopes that it took while Redis was away."""
    budgets: tuple[Bound, ...] = ()
    purses: tuple[HardBudget, ...] = ()
    """Of those of its budgets that are hard, in their order."""
    output_tokens_requested: int = 0
    held_before_nanousd: int = 0
    """What was held when its models became fewer. It stays held until the call ends."""
    rates: Mapping[Dimension, RateState] = msgspec.field(default_factory=dict)
    served: Candidate | None = None
    meter: Meter | None = None
    attempts: list[Attempt] = msgspec.field(default_factory=list)
    status: CallStatus | None = None
    finish_reason: str | None = None
    error_code: str | None = None
    ended_us: int = 0
    served_since_us: int = 0
    tried: OpenAttempt | None = None
    share: Counted | None = None
    """What the attempt that serves it has delivered, where others before it did too."""
    resume: Mapping[str, Any] | None = None
    """What a worker of ours is told of an answer that goes on there."""
    continuation: Continuation | None = None
    """How an answer goes on there by its text."""
    waits_for: str | None = None
    wait: PlaceWait | None = None
    beginning: Beginning = NO_BEGINNING
    """What its neighbours are told by."""
    renewed_s: float = 0.0
    checkpoints: int = 0
    booked_nanousd: int = 0
    """What the ledger booked for it while it was still running (estimated, before a wipe)."""
    _settled: SettledCall | None = None

    @property
    def rid(self) -> str:
        return self.call.request_id

    def serve_from(
        self, candidate: Candidate, meter: Meter, since_us: int, tried: OpenAttempt | None = None
    ) -> None:
        """An attempt has delivered: the customer pays for what the last such one delivered."""
        self.served = candidate
        self.tried = tried
        self.share = None
        self.meter = meter
        self.served_since_us = since_us

    def go_on_from(self, candidate: Candidate, share: Counted, tried: OpenAttempt) -> None:
        """Another attempt goes on where the last one was lost: its meter goes on too."""
        self.served, self.share, self.tried = candidate, share, tried

    def forgive(self) -> None:
        """It failed, and nothing of it reached its caller: it is free. What its attempts cost us
        stands in their records."""
        self.meter = None

    def wait_for(self, pool: str) -> PlaceWait:
        """Its wait for a pool begins."""
        self.wait = PlaceWait(pool, self.wait.redecisions if self.wait else 0)
        return self.wait

    @property
    def held_nanousd(self) -> int:
        """What is held for it by now: the prompt and every output slice granted."""
        held = self.quote.hold_nanousd(self.call, self.output_tokens_granted)
        return max(held, self.held_before_nanousd)

    def keep_to(self, models: tuple[str, ...]) -> None:
        """From now on it may end on these of its models only."""
        self.held_before_nanousd = self.held_nanousd
        self.call = self.call._replace(models=models)

    def leave_out_dearer(self, model: str, output_tokens: int) -> bool:
        """Keep to the models whose hold for that much output is no higher than that of `model`.
        False where these are all."""
        call, hold_of = self.call, self.quote.hold_of
        most = hold_of(call, model, output_tokens)
        left = tuple([each for each in call.models if hold_of(call, each, output_tokens) <= most])
        if len(left) == len(call.models):
            return False
        self.keep_to(left)
        return True

    @property
    def is_short(self) -> bool:
        """All the output it may have fits into one slice."""
        return (
            self.call.output_tokens_max <= self.opened.tokens_estimate - self.opened.prompt_tokens
        )

    @property
    def has_spoken(self) -> bool:
        """Something that its caller can read has come: text, reasoning, a vector."""
        return self.meter is not None and self.meter.first_token_s is not None

    @property
    def was_dispatched(self) -> bool:
        return self.served is not None

    @property
    def was_tried(self) -> bool:
        """A worker has taken it, though maybe nothing came of it: the request counts."""
        return any([attempt.outcome not in NOTHING_DISPATCHED for attempt in self.attempts])

    @property
    def usage(self) -> Usage:
        """What the call used; once it has ended, with its GPU-milliseconds."""
        return self._usage_at(self.ended_us)

    def _usage_at(self, now_us: int) -> Usage:
        """Never more than is held, whatever a server reports: the rest is our cost, and stands in
        the record of the attempt.

        Where they have a price, the milliseconds since the attempt that serves it began count:
        so long it has had a place at a worker, whatever else had one."""
        if self.meter is None:
            return Usage()
        prompt = self.call.prompt_tokens[self.model]
        most = self.call.units.get(self.model, 0)
        used = self.meter.usage.within(prompt, self.output_tokens_granted, most)
        prices = self.quote.prices[self.model]
        if used.units or used.unit:
            used = replace(used, unit=self._unit_of(used, prices))
        if not prices.gpu_ms:
            return used
        return replace(used, gpu_ms=max(0, now_us - self.served_since_us) // 1000)

    def _unit_of(self, used: Usage, prices: Prices) -> str:
        if not used.units:
            return ""
        return prices.at_prompt(used.prompt).unit_charged(self.call.unit, used.unit)

    @property
    def model(self) -> str:
        return self.served.model if self.served else self.opened.model

    @property
    def charge(self) -> Charge:
        """What is owed by now, rated with the frozen version at the model served."""
        return rate(self.usage, self.quote.prices[self.model])

    def checkpoint(self, now_us: int) -> UsageCheckpoint:
        """How far the call has come, numbered; all zero before anything was dispatched."""
        self.checkpoints += 1
        served, usage = self.served, self._usage_at(now_us)
        return UsageCheckpoint(
            seq=self.checkpoints,
            model=self.model,
            tier=served.tier if served else self.opened.tier,
            pool=served.pool if served else "",
            is_simulated=_simulated(served),
            **recorded(usage),
            at_us=now_us,
            attempt=self.tried.record(self.share or self.meter, now_us) if self.tried else None,
        )

    def end(self, status: CallStatus, now_us: int, error_code: str | None = None) -> None:
        """The terminal state; the first one stands (law 1: every call ends exactly once)."""
        if self.status is not None:
            return
        self.status = status
        self.ended_us = now_us
        self.error_code = error_code or self.error_code
        if self.finish_reason is None and self.meter is not None:
            self.finish_reason = self.meter.finish_reason

    def settled(self) -> SettledCall:
        """The record everything about this call is later made from. Only after `end`.

        Exact, since its gateway saw the end; `estimated` is what others conclude without it.
        """
        if self._settled is None:
            self._settled = self._record()
        return self._settled

    def _record(self) -> SettledCall:
        assert self.status is not None, "a call is settled after it has ended"
        usage, model, opened, served = self.usage, self.model, self.opened, self.served
        first_token_s = self.meter.first_token_s if self.meter else None
        return SettledCall(
            rid=opened.rid,
            org=opened.org,
            project=opened.project,
            key=opened.key,
            gateway=opened.gateway,
            model_requested=opened.model_requested,
            model=model,
            variant=served.variant if served else "",
            pool=served.pool if served else "",
            capacity_class=served.capacity_class if served else "",
            is_simulated=_simulated(served),
            tier=served.tier if served else opened.tier,
            batch=opened.batch,
            price_version=opened.price_version,
            status=self.status,
            finish_reason=self.finish_reason,
            source=UsageSource.EXACT,
            **recorded(usage),
            amount_nanousd=rate(usage, self.quote.prices[model]).amount_nanousd,
            admitted_us=opened.admitted_us,
            first_token_us=round(first_token_s * 1e6) if first_token_s else None,
            ended_us=self.ended_us,
            attempts=_as_begun(self.attempts),
            error_code=self.error_code,
            budgets=opened.budgets,
            idempotency=opened.idempotency,
            route=self._route(),
        )

    def _route(self) -> Route | msgspec.UnsetType:
        route = route_of(self.decision, self.served) if self.served else self.opened.route
        return route if self.wait is None or not route else self.wait.of(route)


def _as_begun(attempts: list[Attempt]) -> list[Attempt]:
    """In the order of their ends, and of two at once in that of their beginnings: the one that is
    overtaken ends first."""
    if len(attempts) < 2 or all([each.kind is not AttemptKind.HEDGE for each in attempts]):
        return list(attempts)
    return sorted(attempts, key=lambda each: each.started_us)


def _simulated(served: Candidate | None) -> Literal[True] | UnsetType:
    """As records say it: not at all where it is not so."""
    return True if served is not None and served.is_simulated else UNSET
