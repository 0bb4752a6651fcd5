"""Whether a place, or the account of a provider, may be asked: a fold over what attempts told.

A breaker opens after failures in a row or a share of failures, stays open for a pause that grows
while probes fail, lets one to three probes through, and closes once they succeed. A cool-down is a
time that the place itself named: it is no failure, and of two the longer one stands. Pure: the same
events give the same state in every gateway. After the circuit breaker of M. Nygard, "Release It!",
and the outlier ejection of Envoy.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from routing.health.failures import (
    OF_THE_CALL,
    OF_THE_SETTING_UP,
    FailureKind,
    is_of_place,
)

COOL_DOWN_S: Final = 1.0
"""Where a 429 names no time."""
COOL_DOWN_S_MAX: Final = 3600.0
SHARE_MIN: Final = 0.1
"""Of the calls, in the first moment after a breaker has closed."""


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    COOLING = "cooling"


class Pauses(NamedTuple):
    """How long a breaker stays open at first, and at most: it doubles with each failed probe."""

    first_s: float
    most_s: float

    def after(self, openings: int) -> float:
        """Seconds of the pause that begins with this opening in a row, counted from 1."""
        return min(self.most_s, self.first_s * 2.0 ** min(openings - 1, 32))


QUICK: Final = Pauses(1.0, 4.0)
SLOWER: Final = Pauses(5.0, 60.0)
SET_UP: Final = Pauses(5.0, 120.0)


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, for how long, and how it closes.

    Pauses depend on what a probe costs: a refused connection costs its caller nothing, a silent
    server all of the time for a first token, and our own key is mended by people."""

    in_a_row: int = 5
    share: float = 0.5
    """Of failures that open it, among `calls_min` calls or more since the first of them."""
    calls_min: int = 20
    window_s: float = 30.0
    quick: Pauses = QUICK
    slow: Pauses = SLOWER
    set_up: Pauses = SET_UP
    probes: int = 3
    slow_start_s: float = 30.0

    def pauses(self, kind: FailureKind) -> Pauses:
        if kind in OF_THE_SETTING_UP:
            return self.set_up
        return self.slow if kind is FailureKind.SILENT else self.quick


OF_A_PLACE: Final = BreakerRules()
OF_AN_ACCOUNT: Final = BreakerRules(in_a_row=50, share=0.3, calls_min=50, window_s=60.0)
"""Of a provider, region and key: many pools stand behind it."""


class Told(NamedTuple):
    """An attempt that was sent at `sent_s` failed at `at_s`, or had its first token then. `failure`
    None: it answered."""

    at_s: float
    sent_s: float
    failure: FailureKind | None = None
    retry_after_s: float | None = None


class _Second(NamedTuple):
    second: int
    failures: int
    calls: int


@dataclass(frozen=True, slots=True)
class Breaker:
    """What is remembered of one place. A new one is closed."""

    in_a_row: int = 0
    seconds: tuple[_Second, ...] = ()
    """Since the oldest failure in the window; empty where there is none."""
    openings: int = 0
    """In a row, without having closed. 0: it is closed."""
    until_s: float = 0.0
    """When an open breaker lets its next probe through."""
    successes: int = 0
    """Of probes, since it was half open."""
    reason: FailureKind | None = None
    """Why it opened last."""
    cooling_until_s: float = 0.0
    closed_s: float | None = None
    """When it closed last after it was open."""
    changed_s: float = 0.0
    """When it opened or closed last."""

    def state(self, now_s: float) -> BreakerState:
        if self.openings and now_s < self.until_s:
            return BreakerState.OPEN
        if now_s < self.cooling_until_s:
            return BreakerState.COOLING
        return BreakerState.HALF_OPEN if self.openings else BreakerState.CLOSED

    def next_probe_s(self, now_s: float) -> float | None:
        """When it may be asked next; None where it may be asked now."""
        at_s = max(self.until_s if self.openings else 0.0, self.cooling_until_s)
        return at_s if at_s > now_s else None

    @property
    def probes_max(self) -> int:
        """How many probes may be out at once while it is half open: one, then as many more as have
        succeeded."""
        return 1 + self.successes

    def share(self, now_s: float, rules: BreakerRules) -> float:
        """Of the calls that it should get, from 0 to 1: it grows for a time after it closed."""
        if self.openings:
            return 0.0
        if self.closed_s is None:
            return 1.0
        ramp = (now_s - self.closed_s) / rules.slow_start_s
        return min(1.0, max(SHARE_MIN, ramp))

    def is_forgettable(self, now_s: float, rules: BreakerRules) -> bool:
        """Whether it says no more than a new one."""
        idle = not self.openings and not self.in_a_row and now_s >= self.cooling_until_s
        recent = [each for each in self.seconds if each.second > now_s - rules.window_s - 1]
        return idle and not recent and self.share(now_s, rules) >= 1.0

    def after(self, told: Told, rules: BreakerRules) -> "Breaker":
        """The breaker that remembers one attempt more."""
        kind = told.failure
        if kind is FailureKind.COOL_DOWN:
            asked_s = COOL_DOWN_S if told.retry_after_s is None else told.retry_after_s
            until_s = told.at_s + min(asked_s, COOL_DOWN_S_MAX)
            return replace(self, cooling_until_s=max(self.cooling_until_s, until_s))
        if kind is None or kind in OF_THE_CALL:
            return self._after_success(told, rules)
        return self._after_failure(told, kind, rules) if is_of_place(kind) else self

    def hears(self, report: "HealthReport") -> "Breaker":
        """The breaker after what another gateway found out: the later change stands, and the longer
        cool-down."""
        cooling_until_s = max(self.cooling_until_s, report.cooling_until_s)
        if report.changed_s <= self.changed_s:
            return replace(self, cooling_until_s=cooling_until_s)
        return Breaker(
            openings=report.openings,
            until_s=report.until_s,
            reason=report.reason,
            cooling_until_s=cooling_until_s,
            closed_s=None if report.openings else report.changed_s,
            changed_s=report.changed_s,
        )

    @property
    def report(self) -> "HealthReport":
        """What other gateways are to know."""
        return HealthReport(
            self.changed_s, self.openings, self.until_s, self.cooling_until_s, self.reason
        )

    def _after_success(self, told: Told, rules: BreakerRules) -> "Breaker":
        """Of an attempt that was sent before it opened, a success says nothing."""
        if not self.openings:
            if not self.seconds and not self.in_a_row:
                return self
            return replace(self, in_a_row=0, seconds=self._counted(told, 0, rules))
        if told.sent_s < self.until_s:
            return self
        if self.successes + 1 < rules.probes:
            return replace(self, successes=self.successes + 1)
        return Breaker(
            cooling_until_s=self.cooling_until_s,
            reason=self.reason,
            closed_s=told.at_s,
            changed_s=told.at_s,
        )

    def _after_failure(self, told: Told, kind: FailureKind, rules: BreakerRules) -> "Breaker":
        if self.openings:
            return self if told.sent_s < self.until_s else self._opened(told, kind, rules)
        seconds, in_a_row = self._counted(told, 1, rules), self.in_a_row + 1
        counted = replace(self, in_a_row=in_a_row, seconds=seconds)
        failures = sum(each.failures for each in seconds)
        calls = sum(each.calls for each in seconds)
        is_shared = calls >= rules.calls_min and failures >= rules.share * calls
        if kind in OF_THE_SETTING_UP or in_a_row >= rules.in_a_row or is_shared:
            return counted._opened(told, kind, rules)
        return counted

    def _opened(self, told: Told, kind: FailureKind, rules: BreakerRules) -> "Breaker":
        openings = self.openings + 1
        return Breaker(
            openings=openings,
            until_s=told.at_s + rules.pauses(kind).after(openings),
            reason=kind,
            cooling_until_s=self.cooling_until_s,
            changed_s=told.at_s,
        )

    def _counted(self, told: Told, failed: int, rules: BreakerRules) -> tuple[_Second, ...]:
        """By whole seconds, from the oldest failure in the window on."""
        second = int(told.at_s)
        seconds = [each for each in self.seconds if each.second > second - rules.window_s]
        if seconds and seconds[-1].second >= second:
            last = seconds.pop()
            seconds.append(_Second(last.second, last.failures + failed, last.calls + 1))
        else:
            seconds.append(_Second(second, failed, 1))
        while seconds and not seconds[0].failures:
            del seconds[0]
        return tuple(seconds)


class HealthReport(NamedTuple):
    """What a gateway found out of a place: when it opened or closed, and how long it cools. Times
    are epoch seconds."""

    changed_s: float
    openings: int
    until_s: float
    cooling_until_s: float
    reason: FailureKind | None


def folded(events: Iterable[Told], rules: BreakerRules) -> Breaker:
    """The breaker after all of them."""
    breaker = Breaker()
    for told in events:
        breaker = breaker.after(told, rules)
    return breaker
