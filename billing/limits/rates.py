"""What the levels of the buckets mean to a caller: remaining units, resets, when to come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from billing.limits.gcra import cost_us, remaining
from billing.limits.types import Dimension, RateState, Refused, ScopeLimits

CONCURRENCY_RETRY_MS = 1_000
UNPRIMED_RETRY_MS = 1_000
BLOCKED_RETRY_MS = 60_000

Limit = Callable[[ScopeLimits], tuple[int | None, int | None]]


def never_fits(tokens: int, scopes: Sequence[ScopeLimits]) -> Refused | None:
    """A call no waiting helps: larger than a bucket can ever hold, or a rate of zero."""
    for limits in scopes:
        rate, burst = _token_limit(limits)
        if rate and tokens > (rate if burst is None else burst):
            return Refused(limits.scope, Dimension.TOO_LARGE, None)
    for limits in scopes:
        if limits.requests_per_minute == 0 or limits.request_burst == 0:
            return Refused(limits.scope, Dimension.REQUESTS, BLOCKED_RETRY_MS)
        if limits.tokens_per_minute == 0:
            return Refused(limits.scope, Dimension.TOKENS, BLOCKED_RETRY_MS)
    return None


def refusal(scope: str, dimension: Dimension, wait_us: int) -> Refused:
    match dimension:
        case Dimension.BUDGET:
            return Refused(scope, dimension, None)
        case Dimension.UNPRIMED:
            return Refused(scope, dimension, UNPRIMED_RETRY_MS)
        case Dimension.CONCURRENCY:
            return Refused(scope, dimension, CONCURRENCY_RETRY_MS)
        case _:
            return Refused(scope, dimension, -(-wait_us // 1000))


def tightest_requests(scopes: Sequence[ScopeLimits], levels_us: Sequence[int]) -> RateState | None:
    return _tightest(scopes, levels_us, _request_limit)


def tightest_tokens(scopes: Sequence[ScopeLimits], levels_us: Sequence[int]) -> RateState | None:
    return _tightest(scopes, levels_us, _token_limit)


def _tightest(
    scopes: Sequence[ScopeLimits], levels_us: Sequence[int], limit: Limit
) -> RateState | None:
    states = _states(scopes, levels_us, limit)
    return min(states, key=lambda state: state.remaining, default=None)


def _states(
    scopes: Sequence[ScopeLimits], levels_us: Sequence[int], limit: Limit
) -> Iterator[RateState]:
    for limits, level_us in zip(scopes, levels_us, strict=True):
        per_minute, burst = limit(limits)
        if not per_minute:
            continue
        tolerance_us = cost_us(per_minute if burst is None else burst, per_minute)
        left = remaining(level_us=level_us, tolerance_us=tolerance_us, per_minute=per_minute)
        yield RateState(limits.scope, per_minute, left, -(-level_us // 1000))


def _request_limit(limits: ScopeLimits) -> tuple[int | None, int | None]:
    return limits.requests_per_minute, limits.request_burst


def _token_limit(limits: ScopeLimits) -> tuple[int | None, int | None]:
    return limits.tokens_per_minute, limits.token_burst
