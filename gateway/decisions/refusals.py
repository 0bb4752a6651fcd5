"""Which calls were refused, and why: few of each kind one by one, the others as a count.

Pure. A flood of refusals leaves few rows: of a key, an error and a rule in one minute the first
`EACH_MAX` calls have a row each, and all others share one.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from msgspec.structs import replace

from billing.refusals.refusal import MESSAGE_MAX, Refusal
from gateway.decisions.record import DecisionOutcome
from gateway.errors import ApiError
from routing.policy.action import Matched
from routing.types import Call, RefusalKind

EACH_MAX: Final = 10
GROUPS_MAX: Final = 2_000
"""Groups that are counted in one minute. What comes beyond them is lost."""
MINUTE_US: Final = 60_000_000


class TurnedAway(StrEnum):
    """Why a call was refused after it was decided."""

    LIMIT = "limit"
    MONEY = "money"
    OVERLOAD = "overload"
    """The gateway itself takes no more calls, or no more of this tier."""
    UNSERVED = "unserved"
    """The call was admitted, and nobody took it."""


RefusalReason = RefusalKind | TurnedAway


def refusal_of(
    call: Call, matched: Matched, error: ApiError, at_us: int, reason: RefusalReason | None = None
) -> Refusal:
    """Without a `reason` it follows from the error of limits or money."""
    message = error.message[:MESSAGE_MAX].encode(errors="replace").decode().replace("\0", "")
    reason = reason or _reason(error)
    refusal = refused_call(call, matched, at_us, reason.value, error.code, message)
    return replace(refusal, is_canary=matched.is_canary, retry_after_s=error.retry_after_s)


def refused_call(
    call: Call,
    matched: Matched | DecisionOutcome,
    at_us: int,
    reason: str | None,
    error_code: str | None,
    message: str = "",
) -> Refusal:
    return Refusal(
        rid=call.request_id,
        at_us=at_us,
        until_us=at_us,
        org=call.organization,
        project=call.project,
        key=call.key,
        model=call.model_requested,
        tier=call.tier.value,
        rule=matched.rule,
        policy_revision=matched.policy_revision,
        reason=reason or "",
        error_code=error_code or "",
        message=message,
    )


def _reason(error: ApiError) -> TurnedAway:
    if error.code == "insufficient_quota":
        return TurnedAway.MONEY
    return TurnedAway.OVERLOAD if error.status >= 500 else TurnedAway.LIMIT


class _Group(NamedTuple):
    key: str
    reason: str
    error_code: str
    rule: str
    policy_revision: int
    is_canary: bool | None


class RefusalTally:
    def __init__(self) -> None:
        self._minute = 0
        self._counts: dict[_Group, int] = {}
        self._shared: dict[_Group, Refusal] = {}
        self._rows: list[Refusal] = []
        self.lost = 0
        """Refused calls that stand in no row."""

    def add(self, refusal: Refusal) -> bool:
        """Whether the call has a row of its own."""
        self._begin(refusal.at_us // MINUTE_US)
        group = _Group(*[getattr(refusal, name) for name in _Group._fields])
        count = self._counts.get(group, 0)
        if not count and len(self._counts) >= GROUPS_MAX:
            self.lost += 1
            return False
        self._counts[group] = count + 1
        if count < EACH_MAX:
            self._rows.append(refusal)
            return True
        first = self._shared.get(group)
        self._shared[group] = (
            refusal
            if first is None
            else replace(first, calls=first.calls + 1, until_us=refusal.at_us)
        )
        return False

    def take(self, now_us: int | None = None) -> list[Refusal]:
        """The rows that no call of now can change; without an instant, all of them."""
        self._begin(None if now_us is None else now_us // MINUTE_US)
        rows, self._rows = self._rows, []
        return rows

    def _begin(self, minute: int | None) -> None:
        """Close the minute before, if another one has begun."""
        if minute == self._minute:
            return
        self._rows += self._shared.values()
        self._counts, self._shared = {}, {}
        self._minute = -1 if minute is None else minute
