"""What calls leave alone just now: breakers that are not closed, why, and when each is tried.

Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gateway.console.formatting import duration
from routing.health.breaker import Breaker, BreakerState
from routing.health.failures import FailureKind

REASONS: Mapping[FailureKind, str] = MappingProxyType(
    {
        FailureKind.REFUSED_US: "it refuses our key or our account (401, 402 or 403)",
        FailureKind.NOT_THERE: "its URL or its model is wrong",
        FailureKind.COOL_DOWN: "it asked to be left alone for a time",
        FailureKind.SERVER_ERROR: "it answers with server errors",
        FailureKind.RESET: "it takes no connections, or breaks them",
        FailureKind.SILENT: "it gives no first token in time",
        FailureKind.CUT: "its answers break",
        FailureKind.NONSENSE: "what it says cannot be read",
    }
)
KINDS: Mapping[str, str] = MappingProxyType(
    {"account": "provider", "pool": "pool", "replica": "replica"}
)


@dataclass(frozen=True, slots=True)
class BreakerRow:
    kind: str
    name: str
    state: str
    """`open`, `half_open` or `cooling`."""
    reason: str
    next_probe: str
    """In how long, or that a probe may go now."""
    is_ours: bool
    """Only an operator can mend it: a key or an account is refused."""


def breaker_rows(breakers: Mapping[str, Breaker], now_s: float) -> tuple[BreakerRow, ...]:
    """Those that are not closed, by scope (`pool:NAME`, `replica:ID`, `account:...`): what an
    operator has to mend first."""
    rows = [
        _row(scope, breaker, now_s)
        for scope, breaker in breakers.items()
        if breaker.state(now_s) is not BreakerState.CLOSED
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_ours, row.kind, row.name)))


def _row(scope: str, breaker: Breaker, now_s: float) -> BreakerRow:
    kind, _, name = scope.partition(":")
    state = breaker.state(now_s)
    reason = FailureKind.COOL_DOWN if state is BreakerState.COOLING else breaker.reason
    at_s = breaker.next_probe_s(now_s)
    return BreakerRow(
        kind=KINDS.get(kind, kind),
        name=name if kind != "account" else _account(name),
        state=state.value,
        reason=REASONS.get(reason, reason.value) if reason is not None else "",
        next_probe="now" if at_s is None else f"in {duration(round((at_s - now_s) * 1e6))}",
        is_ours=reason is FailureKind.REFUSED_US,
    )


def _account(name: str) -> str:
    """A provider, its region and the variable of its key; `-` stands for none."""
    provider, *rest = name.split("/")
    return ", ".join([provider, *(each for each in rest if each != "-")])
