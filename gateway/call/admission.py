"""Steps 5 and 8: what is taken for a call is taken here, and given back here.

Joins the Redis scripts with the spool, in the one order that loses nothing: admit, `opened`;
`closed`, settle. Knows every open call of this gateway, so that leases are renewed in time, and a
settle that found Redis away is tried again. Guards law 2: every permit, hold and lease is closed
on every path.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

import msgspec

from billing.budgets.budget import Budget, share_of
from billing.limits.holds import Holds
from billing.limits.types import (
    Admitted,
    Booked,
    Dimension,
    HardBudget,
    LimitsUnavailable,
    Money,
    NotAsked,
    RateState,
    Refused,
    ScopeLimits,
    purse_name,
    purse_of,
)
from billing.spool.spool import Spool, SpoolFull
from billing.types import BudgetShare, CallStatus, OpenedCall, SettledCall, utc_month
from gateway.call.leases import Leases, Renewal
from gateway.call.model_limits import without_dearest
from gateway.call.open_call import OpenCall, Quote, granted_at_first, route_of
from gateway.call.outage import REBUILT, Outage
from gateway.call.refusals import out_of_budget, refusal
from gateway.errors import QUOTA_CODE, ApiError, overloaded
from gateway.limits.budgets import Bound
from gateway.limits.credits import CreditLines
from gateway.limits.pressure import Pressure
from gateway.limits.slots import Slots, slot_s
from gateway.tenants.auth import Principal
from routing.types import AUTO_MODEL, Call, Clock, Decision

log = logging.getLogger(__name__)

REDIS_RETRY_S = 1.0
"""How long Redis stays away, or the replay of a former life takes, nobody knows: it is looked for
about as often."""
SPOOL_FULL_RETRY_S = 10.0
"""When a disk has room again cannot be told from how full it is: the ledger frees what it has
confirmed by whole segments, or somebody does. The spool looks at every call that comes back."""
PUT_OFF_MAX = 10_000
"""Calls that ended while Redis was away, in memory; the spool has them all."""
SETTLED_AT_ONCE = 64
DOUBTS_MAX = 2_000
"""Calls remembered because Redis did not say whether it admitted them; the reaper has the rest."""


class _Owed(msgspec.Struct, frozen=True):
    """A call that has ended and is not settled in Redis yet."""

    settled: SettledCall
    refund: bool
    booked_nanousd: int = 0


class Accounts:
    """Takes for calls and gives back, in pairs: see `admit`."""

    def __init__(
        self,
        *,
        holds: Holds,
        spool: Spool,
        leases: Leases,
        outage: Outage,
        credits: CreditLines,
        pressure: Pressure,
        gateway_id: str,
        calls_max: int,
        clock: Clock,
        on_end: Callable[[SettledCall], None] = lambda _: None,
    ) -> None:
        self._holds = holds
        self._spool = spool
        self._gateway_id = gateway_id
        self._leases = leases
        self._outage = outage
        self.credits = credits
        self.pressure = pressure
        self._calls_max = calls_max
        self._clock = clock
        self._ended = on_end
        self._unsettled: dict[str, _Owed] = {}
        self._put_off: deque[str] = deque()
        self.open: dict[str, OpenCall] = {}
        self.slots = Slots()
        self.is_ready = False
        """False until the former life's spool was replayed and Redis has been primed."""
        self.left_to_spool = 0
        """Calls that ended while Redis was away and are too many to be kept in memory."""

    @property
    def lease_s(self) -> float:
        return self._leases.settings.lease_s

    @property
    def unsettled_count(self) -> int:
        return len(self._unsettled)

    def knows(self, rid: str) -> bool:
        """Whether a call is open, or has ended and Redis has still to be told."""
        return rid in self.open or rid in self._unsettled

    async def heard_of(self, rid: str, organization: str) -> bool:
        """Whether the ledger may come to know a call: one that is open or has ended of late. Where
        Redis is away it may, for all that is known."""
        if self.knows(rid):
            return True
        try:
            return await self._holds.read(rid, organization) is not None
        except LimitsUnavailable:
            return True

    async def spent_and_held(self, organization: str, limits: ScopeLimits) -> tuple[int, int]:
        """Nano-USD spent in the current window of a scope's budget, and held now.

        Raises ApiError 503 where Redis is away.
        """
        money = await self.money(organization, limits.scope)
        if limits.budget_window == "total":
            return money.spent.total_nanousd, money.held_nanousd
        return money.spent.months.get(utc_month(self._now_us()), 0), money.held_nanousd

    async def money(self, organization: str, scope: str | None = None) -> Money:
        """What a scope, by default the organization, holds and ever spent; raises ApiError 503."""
        try:
            return await self._holds.money(organization, scope or f"org:{organization}")
        except LimitsUnavailable as away:
            raise overloaded("The limiter is out of reach.", REDIS_RETRY_S) from away

    # --- opened and closed in pairs ----------------------------------------------------------

    def admit(
        self,
        principal: Principal,
        call: Call,
        quote: Quote,
        decision: Decision,
        scopes: tuple[ScopeLimits, ...],
        budgets: tuple[Bound, ...] = (),
        idempotency: str | None = None,
    ) -> "Admission":
        """Take rate, tokens, concurrency and money of every scope, all or nothing.

        Raises ApiError 429, 402, 400 or 503. Leaving the block settles, whatever happened in it.
        """
        open_call = self._open_call(
            principal, call, quote, decision, scopes, budgets, idempotency or msgspec.UNSET
        )
        return Admission(self, open_call)

    async def take(self, open_call: OpenCall) -> None:
        """A caller who leaves meanwhile, however often: what was taken is given back."""
        try:
            await self._take(open_call)
        except asyncio.CancelledError as cancelled:
            await asyncio.shield(self._take_back(open_call, _why(cancelled)))
            raise

    async def leave(self, open_call: OpenCall, failed: BaseException | None) -> None:
        """End the call as its block was left, and settle it."""
        match failed:
            case None:
                pass
            case asyncio.CancelledError():
                open_call.end(CallStatus.CANCELLED, self._now_us(), _why(failed))
            case ApiError():
                status = CallStatus.FAILED if open_call.was_dispatched else CallStatus.REFUSED
                open_call.end(status, self._now_us(), failed.code)
                failed.charged_nanousd = open_call.charge.amount_nanousd
            case _:
                open_call.end(CallStatus.FAILED, self._now_us(), "internal_error")
        self.close(open_call)
        try:
            await self._give_back(open_call)
        except asyncio.CancelledError:  # asking twice is safe, and a task costs only here
            await asyncio.shield(self._give_back(open_call))
            raise

    def close(self, open_call: OpenCall, status: CallStatus = CallStatus.ANSWERED) -> None:
        """End the call and write its `closed` line: before the last frame leaves. Idempotent."""
        rid = open_call.rid
        if rid not in self.open:
            return
        open_call.end(status, self._now_us())
        settled = open_call.settled()
        self._forget(open_call)
        try:
            self._spool.closed(settled)
        except SpoolFull as full:
            log.error("the closing line of %s was not spooled: %s", rid, full)
        self._ended(settled)
        refund = not open_call.was_tried
        self._outage.closed(settled, refund=refund)
        self._unsettled[rid] = _Owed(settled, refund, open_call.booked_nanousd)

    def _open_call(
        self,
        principal: Principal,
        call: Call,
        quote: Quote,
        decision: Decision,
        scopes: tuple[ScopeLimits, ...],
        budgets: tuple[Bound, ...],
        idempotency: str | msgspec.UnsetType,
    ) -> OpenCall:
        slice_tokens = self._leases.settings.slice_tokens
        granted = granted_at_first(call, decision, slice_tokens)
        prompt_tokens = max(map(call.prompt_tokens.__getitem__, quote.prices))
        now_us = self._now_us()
        scopes = self.credits.bound(scopes, principal, quote.prices, now_us)
        shares = [share_of(budget, subject, now_us) for budget, subject in budgets]
        opening = OpenedCall(
            rid=call.request_id,
            org=principal.organization,
            project=principal.project,
            key=principal.key,
            gateway=self._gateway_id,
            model_requested=call.model_requested,
            model=decision.chosen.model,
            tier=call.tier,
            batch=False,
            price_version=quote.version_id,
            stream=call.stream,
            tokens_estimate=prompt_tokens + min(granted, slice_tokens),
            hold_nanousd=quote.hold_nanousd(call, granted),
            prompt_tokens=prompt_tokens,
            admitted_us=now_us,
            scopes=[limits.scope for limits in principal.scopes],
            month=utc_month(now_us),
            budgets=shares,
            idempotency=idempotency,
            route=route_of(decision, decision.chosen),
        )
        return OpenCall(
            *(principal, call, quote, decision, opening, scopes, granted),
            budgets=budgets,
            purses=_purses(budgets, shares) if budgets else (),
            renewed_s=self._clock(),
        )

    async def _take_back(self, open_call: OpenCall, why: str) -> None:
        """Whether it was taken is not known, so it counts as taken: Redis hears of the end after it
        heard of the beginning, if it did, and settling what was never taken changes nothing."""
        open_call.end(CallStatus.CANCELLED, self._now_us(), why)
        if open_call.rid not in self._unsettled and open_call.rid not in self.open:
            self._remember(open_call)
            with suppress(SpoolFull):
                self._spool.opened(open_call.opened)
        self.close(open_call)
        await self._give_back(open_call)

    async def _take(self, open_call: OpenCall) -> None:
        if not self.is_ready:
            raise overloaded("The gateway is still recovering.", REDIS_RETRY_S)
        if len(self.open) >= self._calls_max:
            raise overloaded("The gateway has as many open calls as it may.", self._full_s())
        if (shed := self.pressure.refusal(open_call.call.tier)) is not None:
            raise shed
        open_call.rates = await self._rates_of_covered(open_call)
        self._remember(open_call)
        try:
            self._spool.opened(open_call.opened)
        except SpoolFull as full:
            await self._abandon(open_call)
            raise overloaded("The usage spool is full.", SPOOL_FULL_RETRY_S) from full

    def _full_s(self) -> float:
        """When one of the open calls ends, as long as they last: twice what the middle one of them
        has lasted by now, for they stand in the order in which they began."""
        middle = next(islice(self.open.values(), len(self.open) // 2, None))
        return slot_s(2 * (self._clock() - middle.opened.admitted_us / 1e6), len(self.open))

    async def _rates_of_covered(self, open_call: OpenCall) -> Mapping[Dimension, RateState]:
        """Where the money does not cover every model of the call, the dearest one is left out and
        the others are taken, until it is on its first choice alone."""
        while True:
            try:
                return await self._rates(open_call)
            except ApiError as refused:
                if refused.code != QUOTA_CODE or not self._leave_out_dearest(open_call):
                    raise

    def _leave_out_dearest(self, open_call: OpenCall) -> bool:
        """False where nothing is left to leave out. Nothing has been taken for the call yet."""
        granted, opened = open_call.output_tokens_granted, open_call.opened
        if open_call.status is not None or open_call.call.model_requested == AUTO_MODEL:
            return False
        fewer = without_dearest(open_call.call, open_call.quote, open_call.decision, granted)
        if fewer is None:
            return False
        call, quote, decision = open_call.call, open_call.quote, open_call.decision = fewer
        prompt_tokens = max(map(call.prompt_tokens.__getitem__, call.models))
        open_call.opened = msgspec.structs.replace(
            opened,
            tokens_estimate=opened.tokens_estimate - opened.prompt_tokens + prompt_tokens,
            prompt_tokens=prompt_tokens,
            hold_nanousd=quote.hold_nanousd(call, granted),
            route=route_of(decision, decision.chosen),
        )
        admitted_us, scopes = opened.admitted_us, open_call.scopes
        facts = open_call.principal, call.models, admitted_us
        open_call.scopes = self.credits.bound(scopes, *facts)
        return True

    async def _rates(self, open_call: OpenCall) -> Mapping[Dimension, RateState]:
        """Ask Redis for the call, or where it is away, the gateway's own limits."""
        try:
            answer = await self._holds.admit(
                open_call.opened,
                open_call.scopes,
                lease_s=self.lease_s,
                purses=open_call.purses,
            )
        except NotAsked:
            return self._outage.admit(open_call, self.slots)
        except LimitsUnavailable:
            try:
                return self._outage.admit(open_call, self.slots)
            except ApiError:
                self._doubt(open_call)
                raise
        match answer:
            case Admitted(rates=rates):
                return rates
            case Refused(dimension=Dimension.UNPRIMED):
                return self._outage.admit(open_call, self.slots, why=REBUILT)
            case Refused(scope=name, dimension=Dimension.BUDGET) if _is_purse(name, open_call):
                status = open_call.principal.quota_status
                granted = open_call.output_tokens_granted
                raise out_of_budget(*_bound_by(name, open_call), status, granted)
            case refused:
                status = open_call.principal.quota_status
                answer_with_slots = self.slots.with_wait(refused, open_call.scopes, self._clock())
                granted = open_call.output_tokens_granted
                raise refusal(answer_with_slots, open_call.scopes, status, granted)

    def _remember(self, open_call: OpenCall) -> None:
        self.open[open_call.rid] = open_call
        self.slots.enter(open_call.scopes, open_call.opened.admitted_us / 1e6)

    def _forget(self, open_call: OpenCall) -> None:
        del self.open[open_call.rid]
        began_s = open_call.opened.admitted_us / 1e6
        self.slots.leave(open_call.scopes, began_s, open_call.ended_us / 1e6)

    def _doubt(self, open_call: OpenCall) -> None:
        """Whether anything was taken is not known, so it is given back once Redis answers again:
        settling what was never taken changes nothing, and nothing is taken for it afterwards."""
        open_call.end(CallStatus.REFUSED, self._now_us(), "server_is_overloaded")
        if len(self._put_off) < DOUBTS_MAX:
            self._unsettled[open_call.rid] = _Owed(open_call.settled(), refund=True)
            self._put_off.append(open_call.rid)

    async def _abandon(self, open_call: OpenCall) -> None:
        open_call.end(CallStatus.REFUSED, self._now_us(), "spool_full")
        self._forget(open_call)
        settled = open_call.settled()
        self._outage.closed(settled, refund=True)
        self._unsettled[open_call.rid] = _Owed(settled, refund=True)
        await self._give_back(open_call)

    async def _give_back(self, open_call: OpenCall) -> None:
        try:
            await self._settle(open_call.rid)
        except LimitsUnavailable:
            self._put_off.append(open_call.rid)
            if len(self._put_off) > PUT_OFF_MAX:
                self._leave_to_spool(self._put_off.popleft())

    def _leave_to_spool(self, rid: str) -> None:
        """A long outage fills the spool, not the memory."""
        del self._unsettled[rid]
        self.left_to_spool += 1

    async def _settle(self, rid: str) -> None:
        debt = self._unsettled[rid]
        await self._holds.settle(
            debt.settled, refund=debt.refund, booked_nanousd=debt.booked_nanousd
        )
        self._unsettled.pop(rid, None)
        self._outage.settled(rid)

    # --- beside the calls ------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew leases that are due and settle what could not be settled, until cancelled."""
        while True:
            await asyncio.sleep(self._leases.settings.retry_every_s)
            for open_call in self._due(self._clock()):
                if open_call.rid not in self.open:
                    continue
                if await self._leases.renew(open_call) is Renewal.AWAY:
                    break
            await self.settle_put_off()

    def _due(self, now_s: float) -> list[OpenCall]:
        """Whose leases are to be renewed; all that were last renewed by a clock put back since."""
        due_s = now_s - self._leases.settings.renew_every_s
        return [call for call in self.open.values() if not due_s < call.renewed_s <= now_s]

    async def settle_put_off(self) -> None:
        """Settle what found Redis away, many at once; stops where Redis is away."""
        while self._put_off:
            count = min(SETTLED_AT_ONCE, len(self._put_off))
            rids = [self._put_off.popleft() for _ in range(count)]
            answers = await asyncio.gather(*map(self._settle, rids), return_exceptions=True)
            failed = {rid: e for rid, e in zip(rids, answers, strict=True) if e is not None}
            self._put_off.extendleft(reversed(failed))
            for error in failed.values():
                if not isinstance(error, LimitsUnavailable):
                    raise error
            if failed:
                return

    def remember_booked(self, booked: Mapping[str, Booked]) -> None:
        """Running calls that the ledger has booked as estimated already: settle corrects them."""
        for rid, record in booked.items():
            if rid in self.open:
                self.open[rid].booked_nanousd = record.amount_nanousd

    def _now_us(self) -> int:
        return round(self._clock() * 1e6)


def _purses(budgets: Sequence[Bound], shares: Sequence[BudgetShare]) -> tuple[HardBudget, ...]:
    return tuple(
        purse_of(share, budget.amount_nanousd)
        for (budget, _), share in zip(budgets, shares, strict=True)
        if budget.is_hard
    )


def _is_purse(name: str, open_call: OpenCall) -> bool:
    return any(purse.name == name for purse in open_call.purses)


def _bound_by(name: str, open_call: OpenCall) -> tuple[Budget, BudgetShare]:
    """The budget whose purse refused, and the call's place in it."""
    pairs = zip(open_call.budgets, open_call.opened.budgets, strict=True)
    return next((budget, share) for (budget, _), share in pairs if purse_name(share) == name)


class Admission:
    """The block in which an admitted call runs."""

    def __init__(self, accounts: Accounts, open_call: OpenCall) -> None:
        self._accounts = accounts
        self.open_call = open_call
        self.is_admitted = False

    async def __aenter__(self) -> OpenCall:
        await self._accounts.take(self.open_call)
        self.is_admitted = True
        return self.open_call

    async def __aexit__(self, kind: object, failed: BaseException | None, trace: object) -> None:
        await self._accounts.leave(self.open_call, failed)


def _why(cancelled: asyncio.CancelledError) -> str:
    """Whoever cancels a journey may say why in a word."""
    return str(cancelled.args[0]) if cancelled.args else "client_closed_request"
