"""The scopes of a call as the scripts take them, worked out once and kept.

A scope that is no narrow one has two buckets, a count of open holds and money in one state, which
Redis keeps for ever. Every other limit (input and output tokens, and all those of narrow scopes) is
a meter with a state of its own, so that it costs only those calls it is set for: one bucket, or the
leases of concurrency. A meter knows nothing of money, and expires when idle, so that there may be
any number of end users. A hard budget is a meter of money, a purse, which comes after the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from billing.limits.gcra import cost_us
from billing.limits.packing import bucket, pack_names, pack_purse, token_units
from billing.limits.state import (
    LIMITS_COST_AT,
    METER_COST_AT,
    encode_limits,
    encode_meter,
    put_cost,
)
from billing.limits.types import Dimension, Purse, ScopeLimits

TOKENS = (Dimension.TOKENS, Dimension.INPUT_TOKENS, Dimension.OUTPUT_TOKENS)
BOTH, INPUT, OUTPUT = TOKENS  # what an enum names costs Python 3.11 a function call
KEPT_MAX = 10_000
"""Contracts remembered: as many as there are cached keys."""


class Units(msgspec.Struct, frozen=True):
    """What a call takes of each rate."""

    input_tokens: int
    output_tokens: int

    def of(self, dimension: Dimension) -> int:
        if dimension is BOTH:
            return self.input_tokens + self.output_tokens
        if dimension is INPUT:
            return self.input_tokens
        if dimension is OUTPUT:
            return self.output_tokens
        return 1


@dataclass(frozen=True, slots=True)
class Rated:
    """One limit of one scope. Of concurrency `per_minute` is the number of calls at once."""

    scope: str
    dimension: Dimension
    per_minute: int
    burst: int
    tolerance_us: int


class Contract:
    """`rated` are all rates with the place of each in what admit answers: the levels of requests
    and tokens of every owner, then one of every meter."""

    def __init__(self, scopes: Sequence[ScopeLimits], purses: Sequence[Purse] = ()) -> None:
        self.owners = tuple(limits for limits in scopes if not limits.is_narrow)
        self.meters = tuple(_meters(scopes))
        self.names = tuple(limits.scope for limits in self.owners)
        self.purses = tuple(purses)
        self.meter_names = (
            *(f"{meter.scope}#{meter.dimension}" for meter in self.meters),
            *(purse.name for purse in purses),
        )
        self.packed_names = pack_names(self.names)
        self.packed_meter_names = pack_names(self.meter_names)
        self.rated = tuple(self._rated())
        self._bursts = tuple(self._smallest_bursts().items())
        self._template, self._costs = self._packed_once()

    def has_room(self, units: Units) -> bool:
        """Whether a call of so many units fits into every bucket once that is empty."""
        return all([units.of(dimension) <= burst for dimension, burst in self._bursts])

    def pack(self, units: Units) -> bytes:
        """What a call of so many units has to fit in: LIMITS of every owner, every METER."""
        if not self._costs:
            return self._template
        token_units(units.of(BOTH))
        packed = bytearray(self._template)
        for at, dimension, per_minute in self._costs:
            put_cost(packed, at, cost_us(units.of(dimension), per_minute))
        return bytes(packed)

    def name(self, number: int) -> str:
        """The scope that a refusal counts, from 1."""
        beyond = number - len(self.owners) - 1
        if beyond < 0:
            return self.names[number - 1]
        if beyond < len(self.meters):
            return self.meters[beyond].scope
        return self.purses[beyond - len(self.meters)].name

    def dimension(self, number: int, said: str) -> Dimension:
        beyond = number - len(self.owners) - 1
        if beyond < 0:
            return Dimension(said)
        return self.meters[beyond].dimension if beyond < len(self.meters) else Dimension.BUDGET

    def _smallest_bursts(self) -> dict[Dimension, int]:
        """Of each dimension; below any call where a rate admits nothing at all."""
        found: dict[Dimension, int] = {}
        for _, rated in self.rated:
            burst = rated.burst if rated.per_minute and rated.burst else -1
            found[rated.dimension] = min(found.get(rated.dimension, burst), burst)
        return found

    def _packed_once(self) -> tuple[bytes, list[tuple[int, Dimension, int]]]:
        """What is the same for every call, and where each cost goes that depends on its tokens."""
        template, costs = b"", []
        for packed, cost_at, dimension, per_minute in self._packed():
            if per_minute and dimension in TOKENS:
                costs.append((len(template) + cost_at, dimension, per_minute))
            template += packed
        return template, costs

    def _packed(self) -> Iterator[tuple[bytes, int, Dimension, int]]:
        """LIMITS or METER as of a call without tokens, where the cost in tokens stands, and of
        which rate it is."""
        for owner in self.owners:
            limits = encode_limits(
                bucket(1, owner.requests_per_minute, owner.request_burst),
                bucket(0, owner.tokens_per_minute, owner.token_burst),
                owner.concurrency,
                owner.budget_nanousd,
                owner.tokens_per_minute,
                is_monthly=owner.budget_window == "month",
                ceiling_nanousd=owner.ceiling_nanousd,
            )
            yield limits, LIMITS_COST_AT, Dimension.TOKENS, owner.tokens_per_minute or 0
        for meter in self.meters:
            cost, tolerance = bucket(1, meter.per_minute, meter.burst)
            if meter.dimension is Dimension.CONCURRENCY:
                cost, tolerance = 1, meter.burst
            packed = encode_meter(meter.dimension, meter.per_minute, cost, tolerance)
            yield packed, METER_COST_AT, meter.dimension, meter.per_minute
        for purse in self.purses:
            yield pack_purse(purse), 0, Dimension.BUDGET, 0

    def _rated(self) -> Iterator[tuple[int, Rated]]:
        for number, owner in enumerate(self.owners):
            for rated in rates_of(owner):
                if rated.dimension is Dimension.REQUESTS:
                    yield 2 * number, rated
                elif rated.dimension is Dimension.TOKENS:
                    yield 2 * number + 1, rated
        for number, meter in enumerate(self.meters, 2 * len(self.owners)):
            if meter.dimension is not Dimension.CONCURRENCY:
                yield number, meter


@lru_cache(KEPT_MAX)
def contract_of(scopes: tuple[ScopeLimits, ...], purses: tuple[Purse, ...] = ()) -> Contract:
    """Raises ValueError for names that the scripts cannot tell apart."""
    return Contract(scopes, purses)


def rates_of(limits: ScopeLimits) -> Iterator[Rated]:
    """Every rate that is set for a scope."""
    for dimension, rate, burst in (
        (Dimension.REQUESTS, limits.requests_per_minute, limits.request_burst),
        (Dimension.TOKENS, limits.tokens_per_minute, limits.token_burst),
        (Dimension.INPUT_TOKENS, limits.input_tokens_per_minute, limits.input_token_burst),
        (Dimension.OUTPUT_TOKENS, limits.output_tokens_per_minute, limits.output_token_burst),
    ):
        if rate is not None:
            size = rate if burst is None else burst
            tolerance_us = cost_us(size, rate) if rate else 0
            yield Rated(limits.scope, dimension, rate, size, tolerance_us)


def _meters(scopes: Sequence[ScopeLimits]) -> Iterator[Rated]:
    directions = (Dimension.INPUT_TOKENS, Dimension.OUTPUT_TOKENS)
    for limits in scopes:
        for rated in rates_of(limits):
            if limits.is_narrow or rated.dimension in directions:
                yield rated
        if limits.is_narrow and limits.concurrency is not None:
            slots = limits.concurrency
            yield Rated(limits.scope, Dimension.CONCURRENCY, slots, slots, 0)
