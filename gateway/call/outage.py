"""What becomes of calls while Redis is away or its counters are rebuilt, as their organization
declares it.

`deny`: 503. `local`: this gateway admits by buckets of its own, each with its share of the limit,
and lets an organization owe at most its cap: what calls of this gateway hold or have cost that
Redis does not know of yet. Guards law 8 as far as it can be guarded without Redis: rates by the
shares, money by the cap.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from billing.limits.contract import Units, contract_of
from billing.limits.local import LocalPermit, LocalRates, NeverHere
from billing.limits.types import Dimension, RateState, Refused, ScopeLimits
from billing.types import SettledCall
from gateway.call.open_call import OpenCall
from gateway.call.refusals import refusal
from gateway.errors import ApiError, overloaded
from gateway.limits.slots import Slots
from gateway.tenants.auth import OutageMode
from routing.types import Clock

OUT_OF_REACH = "The limiter is out of reach"
REBUILT = "The limiter is being rebuilt from the ledger"


@dataclass(frozen=True, slots=True)
class OutageSettings:
    """`share` of every limit is admitted by all gateways together; `spend_cap_nanousd` is what an
    organization may owe to each where it has not declared a cap."""

    share: float = 0.8
    buckets_max: int = 10_000
    spend_cap_nanousd: int = 1_000_000_000


@dataclass(slots=True)
class _Owing:
    """What one call owes that Redis has not seen."""

    organization: str
    nanousd: int
    permits: list[LocalPermit] = field(default_factory=list)


@dataclass(slots=True)
class Outage:
    """`gateways` are those alive when Redis last told; `wait_s` is when it is asked again."""

    settings: OutageSettings
    clock: Clock
    wait_s: Callable[[], float]
    gateways: int = 1
    _rates: LocalRates = field(init=False)
    _owing: dict[str, _Owing] = field(default_factory=dict)
    _owed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rates = LocalRates(share=self.settings.share, buckets_max=self.settings.buckets_max)

    def admit(
        self, open_call: OpenCall, slots: Slots, *, why: str = OUT_OF_REACH
    ) -> Mapping[Dimension, RateState]:
        """Take a call within limits of this gateway's own; `slots` are those its calls have, and
        `why` is what a caller is told who is not taken.

        Raises ApiError 503 where the organization wants none taken or owes enough, and 429 where a
        share is used up.
        """
        if open_call.principal.outage.mode is OutageMode.DENY:
            raise self._denied(f"{why}.")
        hold = open_call.opened.hold_nanousd
        if not self._may_owe(open_call, hold):
            raise self._denied(f"{why}, and as much is owed as may be.")
        if (full := self._full(open_call.scopes, slots)) is not None:
            raise _refusal(full, open_call)
        permit = self._permit(open_call, open_call.scopes, why)
        self._owing[open_call.rid] = _Owing(open_call.opened.org, hold, [permit])
        self._owed[open_call.opened.org] += hold
        return permit.rates

    def extend(self, open_call: OpenCall, scopes: tuple[ScopeLimits, ...], slots: Slots) -> bool:
        """Let a running call take the limits of one more model within shares of this gateway's own;
        False where that is not wanted or a share is used up."""
        if open_call.principal.outage.mode is OutageMode.DENY or self._full(scopes, slots):
            return False
        try:
            permit = self._permit(open_call, scopes, OUT_OF_REACH)
        except ApiError:
            return False
        owing = self._owing.setdefault(open_call.rid, _Owing(open_call.opened.org, 0))
        owing.permits.append(permit)
        return True

    def top_up(self, open_call: OpenCall, nanousd: int) -> bool:
        """Let a running call hold more than Redis knows of; False where that is not wanted."""
        if open_call.principal.outage.mode is OutageMode.DENY:
            return False
        if not self._may_owe(open_call, nanousd):
            return False
        organization = open_call.opened.org
        owing = self._owing.setdefault(open_call.rid, _Owing(organization, 0))
        owing.nanousd += nanousd
        self._owed[organization] += nanousd
        return True

    def closed(self, call: SettledCall, *, refund: bool) -> None:
        """A call has ended: what it cost stays owed until Redis has it."""
        owing = self._owing.get(call.rid)
        if owing is None:
            return
        self._owe(owing, min(owing.nanousd, call.amount_nanousd))
        used = Units(0, 0) if refund else Units(call.usage.prompt, call.usage.completion)
        for permit in owing.permits:
            self._rates.settle(permit, used, refund=refund, now_us=self._now_us())

    def settled(self, rid: str) -> None:
        """Redis has it now."""
        owing = self._owing.pop(rid, None)
        if owing is not None:
            self._owe(owing, 0)

    def settled_but(self, is_open: Callable[[str], bool]) -> None:
        """Redis has everything but calls of which `is_open` says that they are open."""
        for rid in [rid for rid in self._owing if not is_open(rid)]:
            self.settled(rid)

    def owed_nanousd(self, organization: str) -> int:
        return self._owed[organization]

    def _may_owe(self, open_call: OpenCall, more_nanousd: int) -> bool:
        cap = open_call.principal.outage.cap_nanousd
        most = self.settings.spend_cap_nanousd if cap is None else cap
        return self._owed[open_call.opened.org] + more_nanousd <= most

    def _owe(self, owing: _Owing, nanousd: int) -> None:
        self._owed[owing.organization] += nanousd - owing.nanousd
        owing.nanousd = nanousd
        if not self._owed[owing.organization]:
            del self._owed[owing.organization]

    def _permit(
        self, open_call: OpenCall, scopes: tuple[ScopeLimits, ...], why: str
    ) -> LocalPermit:
        call = open_call.opened
        units = Units(call.prompt_tokens, call.tokens_estimate - call.prompt_tokens)
        try:
            answer = self._rates.admit(
                contract_of(scopes),
                units,
                processes=self.gateways,
                now_us=self._now_us(),
            )
        except NeverHere as large:
            where = f"larger than what one gateway admits alone for {large}"
            raise self._denied(f"{why}, and the call is {where}.") from large
        if isinstance(answer, Refused):
            raise _refusal(answer, open_call)
        return answer

    def _full(self, scopes: tuple[ScopeLimits, ...], slots: Slots) -> Refused | None:
        """Of calls at once this gateway's share counts every call that it runs."""
        for limits in scopes:
            if limits.concurrency is None:
                continue
            share = int(limits.concurrency * self.settings.share / self.gateways)
            if slots.open_in(limits.scope) >= share:
                wait_s = slots.wait_s(limits.scope, share, self.clock())
                return Refused(limits.scope, Dimension.CONCURRENCY, round(wait_s * 1000))
        return None

    def _denied(self, message: str) -> ApiError:
        return overloaded(message, retry_after_s=self.wait_s())

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _refusal(answer: Refused, open_call: OpenCall) -> ApiError:
    return refusal(answer, open_call.scopes, open_call.principal.quota_status)
