"""Arguments of the scripts: limits as microseconds, amounts checked against their bounds."""

from __future__ import annotations

from collections.abc import Sequence

from billing.limits import keys
from billing.limits.gcra import UNITS_MAX, cost_us
from billing.limits.types import MONEY_MAX_NANOUSD, ScopeLimits

Arg = str | bytes | int

TOLERANCE_MAX_US = 2**52
"""142 years: keeps every time in the scripts exact, whatever burst somebody sets."""


def limit_args(limits: ScopeLimits, tokens: int, month: str) -> list[Arg]:
    """The eight arguments of one scope in admit.lua; '' stands for no limit."""
    return [
        limits.scope,
        *_bucket_args(1, limits.requests_per_minute, limits.request_burst),
        *_bucket_args(token_units(tokens), limits.tokens_per_minute, limits.token_burst),
        "" if limits.concurrency is None else limits.concurrency,
        "" if limits.budget_nanousd is None else limits.budget_nanousd,
        _spent_field(limits, month),
    ]


def _bucket_args(units: int, per_minute: int | None, burst: int | None) -> tuple[Arg, Arg]:
    if per_minute is None:
        return "", ""
    tolerance_us = cost_us(per_minute if burst is None else burst, per_minute)
    return cost_us(units, per_minute), min(tolerance_us, TOLERANCE_MAX_US)


def pack_scopes(scopes: Sequence[ScopeLimits], month: str) -> str:
    """The field `s` of a hold (see common.lua)."""
    return " ".join([_packed(limits, month) for limits in scopes])


def no_marks(scopes: Sequence[ScopeLimits]) -> str:
    """The field `k` of a hold whose place in the buckets is forgotten: debts count, no refunds."""
    return " ".join(["0 0"] * len(scopes))


def _packed(limits: ScopeLimits, month: str) -> str:
    tokens = limits.tokens_per_minute or "-"
    requests = limits.requests_per_minute
    request_cost = cost_us(1, requests) if requests else "-"
    budget = "-" if limits.budget_nanousd is None else limits.budget_nanousd
    spent = _spent_field(limits, month)
    return f"{_word(limits.scope)} {tokens} {request_cost} {budget} {spent}"


def _spent_field(limits: ScopeLimits, month: str) -> str:
    return keys.month_field(month) if limits.budget_window == "month" else keys.TOTAL_FIELD


def _word(scope: str) -> str:
    if not scope or len(scope.split()) != 1 or scope != scope.strip():
        raise ValueError(f"a scope is one word: {scope!r}")
    return scope


def nanousd(amount: int) -> int:
    """An amount of one call or one sum, as Lua can carry it. Raises ValueError outside of that."""
    if not 0 <= amount <= MONEY_MAX_NANOUSD:
        raise ValueError(f"not an amount the scripts can carry: {amount}")
    return amount


def token_units(tokens: int) -> int:
    if not 0 <= tokens <= UNITS_MAX:
        raise ValueError(f"not a number of units the buckets can carry: {tokens}")
    return tokens


def milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def key_prefix(shard: int) -> str:
    return f"{keys.tag(shard)}:"
