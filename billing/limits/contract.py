"""The scopes of a call as the scripts take them, worked out once and kept.

A scope that is no narrow one has two buckets, a count of open holds and money in one state, which
Redis keeps for ever. Every other limit (input and output tokens, and all those of narrow scopes) is
a meter with a state of its own, so that it costs only those calls it is set for: one bucket, or the
leases of concurrency. A meter knows nothing of money, and expires when idle, so that there may be
any number of end users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from billing.limits.gcra import cost_us
from billing.limits.packing import bucket, pack_names
from billing.limits.state import encode_limits, encode_meter
from billing.limits.types import Dimension, ScopeLimits

KEPT_MAX = 10_000
"""Contracts remembered: as many as there are cached keys."""


@dataclass(frozen=True, slots=True)
class Units:
    """What a call takes of each rate."""

    input_tokens: int
    output_tokens: int

    def of(self, dimension: Dimension) -> int:
        if dimension is Dimension.TOKENS:
            return self.input_tokens + self.output_tokens
        if dimension is Dimension.INPUT_TOKENS:
            return self.input_tokens
        if dimension is Dimension.OUTPUT_TOKENS:
            return self.output_tokens
        return 1


@dataclass(frozen=True, slots=True)
class Rated:
    """One limit of one scope. Of concurrency `per_minute` is the number of calls at once."""

    scope: str
    dimension: Dimension
    per_minute: int
    burst: int

    @property
    def tolerance_us(self) -> int:
        return cost_us(self.burst, self.per_minute)


class Contract:
    """`rated` are all rates with the place of each in what admit answers: the levels of requests
    and tokens of every owner, then one of every meter."""

    def __init__(self, scopes: Sequence[ScopeLimits]) -> None:
        self.owners = tuple(limits for limits in scopes if not limits.is_narrow)
        self.meters = tuple(_meters(scopes))
        self.names = tuple(limits.scope for limits in self.owners)
        self.meter_names = tuple(f"{meter.scope}#{meter.dimension}" for meter in self.meters)
        self.packed_names = pack_names(self.names)
        self.packed_meter_names = pack_names(self.meter_names)
        self.rated = tuple(self._rated())
        self._constant = None if self._has_token_rates else self._pack(Units(0, 0))

    def pack(self, units: Units) -> bytes:
        """What a call of so many units has to fit in: LIMITS of every owner, every METER."""
        return self._constant or self._pack(units)

    def name(self, number: int) -> str:
        """The scope that a refusal counts, from 1."""
        owners = len(self.owners)
        return (
            self.names[number - 1] if number <= owners else self.meters[number - owners - 1].scope
        )

    def dimension(self, number: int, said: str) -> Dimension:
        owners = len(self.owners)
        return self.meters[number - owners - 1].dimension if number > owners else Dimension(said)

    @property
    def _has_token_rates(self) -> bool:
        return bool(self.meters) or any(owner.tokens_per_minute for owner in self.owners)

    def _pack(self, units: Units) -> bytes:
        tokens = units.of(Dimension.TOKENS)
        owners = [
            encode_limits(
                bucket(1, owner.requests_per_minute, owner.request_burst),
                bucket(tokens, owner.tokens_per_minute, owner.token_burst),
                owner.concurrency,
                owner.budget_nanousd,
                owner.tokens_per_minute,
                is_monthly=owner.budget_window == "month",
            )
            for owner in self.owners
        ]
        meters = [
            encode_meter(
                meter.dimension,
                meter.per_minute,
                *(
                    (1, meter.per_minute)
                    if meter.dimension is Dimension.CONCURRENCY
                    else bucket(units.of(meter.dimension), meter.per_minute, meter.burst)
                ),
            )
            for meter in self.meters
        ]
        return b"".join([*owners, *meters])

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
def contract_of(scopes: tuple[ScopeLimits, ...]) -> Contract:
    """Raises ValueError for names that the scripts cannot tell apart."""
    return Contract(scopes)


def rates_of(limits: ScopeLimits) -> Iterator[Rated]:
    """Every rate that is set for a scope."""
    for dimension, rate, burst in (
        (Dimension.REQUESTS, limits.requests_per_minute, limits.request_burst),
        (Dimension.TOKENS, limits.tokens_per_minute, limits.token_burst),
        (Dimension.INPUT_TOKENS, limits.input_tokens_per_minute, limits.input_token_burst),
        (Dimension.OUTPUT_TOKENS, limits.output_tokens_per_minute, limits.output_token_burst),
    ):
        if rate is not None:
            yield Rated(limits.scope, dimension, rate, rate if burst is None else burst)


def _meters(scopes: Sequence[ScopeLimits]) -> Iterator[Rated]:
    directions = (Dimension.INPUT_TOKENS, Dimension.OUTPUT_TOKENS)
    for limits in scopes:
        for rated in rates_of(limits):
            if limits.is_narrow or rated.dimension in directions:
                yield rated
        if limits.is_narrow and limits.concurrency is not None:
            slots = limits.concurrency
            yield Rated(limits.scope, Dimension.CONCURRENCY, slots, slots)
