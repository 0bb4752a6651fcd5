"""The scopes of a call as the scripts take them, computed once and kept.

A scope that is not narrow has one state: two buckets, a count of open holds and money. Redis keeps
it for ever. Every other limit (input and output tokens, and all limits of narrow scopes) is a meter
with a state of its own. So a meter costs only the calls that it is set for. It is one bucket, or
the leases of concurrency. A meter knows nothing of money and expires when idle, so there may be any
number of end users. A hard budget is a meter of money, called a purse. Purses come after the other
meters.
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
from billing.limits.types import Dimension, HardBudget, ScopeLimits

TOKENS = (Dimension.TOKENS, Dimension.INPUT_TOKENS, Dimension.OUTPUT_TOKENS)
BOTH, INPUT, OUTPUT = TOKENS  # what an enum names costs Python 3.11 a function call
CONTRACTS_MAX = 10_000
"""Contracts remembered: as many as there are cached keys."""


class Units(msgspec.Struct, frozen=True):
    """The units that a call takes of each rate."""

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
    """One limit of one scope. For concurrency `per_minute` is the number of calls at once."""

    scope: str
    dimension: Dimension
    per_minute: int
    burst: int
    tolerance_us: int


class Contract:
    """`rated` has every rate with its place in the answer of admit. The answer has the levels of
    requests and tokens of every owner, then one level of every meter."""

    def __init__(self, scopes: Sequence[ScopeLimits], purses: Sequence[HardBudget] = ()) -> None:
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
        """Whether a call of so many units fits into every bucket while the bucket is empty."""
        return all([units.of(dimension) <= burst for dimension, burst in self._bursts])

    def pack(self, units: Units) -> bytes:
        """The limits for a call of so many units: LIMITS of every owner, then every METER."""
        if not self._costs:
            return self._template
        token_units(units.of(BOTH))
        packed = bytearray(self._template)
        for at, dimension, per_minute in self._costs:
            put_cost(packed, at, cost_us(units.of(dimension), per_minute))
        return bytes(packed)

    def name(self, number: int) -> str:
        """The scope of a refusal. `number` is its place in admit's order, from 1."""
        beyond = number - len(self.owners) - 1
        if beyond < 0:
            return self.names[number - 1]
        if beyond < len(self.meters):
            return self.meters[beyond].scope
        return self.purses[beyond - len(self.meters)].name

    def dimension(self, number: int, name: str) -> Dimension:
        beyond = number - len(self.owners) - 1
        if beyond < 0:
            return Dimension(name)
        return self.meters[beyond].dimension if beyond < len(self.meters) else Dimension.BUDGET

    def _smallest_bursts(self) -> dict[Dimension, int]:
        """The smallest burst of each dimension. It is below any call where a rate admits nothing at
        all."""
        bursts: dict[Dimension, int] = {}
        for _, rated in self.rated:
            burst = rated.burst if rated.per_minute and rated.burst else -1
            bursts[rated.dimension] = min(bursts.get(rated.dimension, burst), burst)
        return bursts

    def _packed_once(self) -> tuple[bytes, list[tuple[int, Dimension, int]]]:
        """The bytes that are the same for every call, and the place of each cost that depends on a
        call's tokens."""
        template, costs = b"", []
        for packed, cost_at, dimension, per_minute in self._packed():
            if per_minute and dimension in TOKENS:
                costs.append((len(template) + cost_at, dimension, per_minute))
            template += packed
        return template, costs

    def _packed(self) -> Iterator[tuple[bytes, int, Dimension, int]]:
        """LIMITS or METER of a call without tokens, with the place of its cost in tokens, its
        dimension and its rate."""
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


@lru_cache(CONTRACTS_MAX)
def contract_of(scopes: tuple[ScopeLimits, ...], purses: tuple[HardBudget, ...] = ()) -> Contract:
    """The contract of these scopes and purses. Raises ValueError for names that the scripts cannot
    tell apart."""
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
