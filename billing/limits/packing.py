"""Arguments of the scripts: rates as microseconds, amounts checked against their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from billing.limits.gcra import UNITS_MAX, cost_us
from billing.limits.state import (
    NAMES_MAX,
    NO_BUCKET,
    PART,
    SCOPES_MAX,
    encode_purse,
    encode_slices,
)
from billing.limits.types import MONEY_MAX_NANOUSD, HardBudget, PurseSpent, Spent

Arg = str | bytes | int

TOLERANCE_MAX_US = 2**52
"""142 years: keeps every time in the scripts exact, whatever burst somebody sets."""


def bucket(units: int, per_minute: int | None, burst: int | None) -> tuple[float, float]:
    """The cost of a call and the tolerance of a bucket, in microseconds."""
    if not per_minute:
        return NO_BUCKET
    tolerance_us = cost_us(per_minute if burst is None else burst, per_minute)
    return cost_us(token_units(units), per_minute), min(tolerance_us, TOLERANCE_MAX_US)


@lru_cache(10_000)
def pack_names(scopes: tuple[str, ...]) -> str:
    """Names of scopes in one argument. Raises ValueError for what the scripts cannot tell apart."""
    for scope in scopes:
        if scope.split() != [scope]:
            raise ValueError(f"a scope is one word: {scope!r}")
    names = " ".join(scopes)
    if len(scopes) > SCOPES_MAX or len(names.encode()) > NAMES_MAX:
        raise ValueError("more scopes than a call can have")
    return names


def pack_sums(spent: Mapping[str, Spent]) -> list[Arg]:
    """The arguments of prime.lua for every scope: sums in two parts, the latest month first."""
    args: list[Arg] = []
    for scope, sums in spent.items():
        args += [scope, *divmod(sums.total_nanousd, PART), len(sums.months)]
        latest, *earlier = sorted(sums.months, reverse=True) or [""]
        if latest:
            args += [latest, *divmod(sums.months[latest], PART)]
        for month in earlier:
            args += [month, sums.months[month]]
    return args


def pack_purse(purse: HardBudget) -> bytes:
    return encode_purse(nanousd(purse.amount_nanousd), purse.width_us, purse.lasts_us)


def pack_purses(spent: Sequence[PurseSpent]) -> list[Arg]:
    """The arguments of prime.lua for every purse, their number first."""
    args: list[Arg] = [len(spent)]
    for each in spent:
        args += [each.purse.name, pack_purse(each.purse), encode_slices(each.parts)]
    return args


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
