"""What is known of an attempt from its beginning on, and its record at any moment of it.

The prices of the pool are frozen here: what an attempt costs us is what held when it began. A
replica of ours costs its time, a server outside its tokens; no pool has both.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from billing.types import Attempt, AttemptKind, Usage
from gateway.providers.price_list import ListedRate, rate_for
from gateway.upstream.fault import Fault
from routing.types import Pool

RUNNING = "running"


class Counted(Protocol):
    """What an attempt delivered: a `Meter`, or a part of one."""

    @property
    def reported(self) -> Usage: ...

    @property
    def busy_us(self) -> int: ...


class PromptAlone(NamedTuple):
    """What an attempt delivered that a server outside has most likely read, and said nothing of."""

    reported: Usage
    busy_us: int = 0


class OpenAttempt(msgspec.Struct, frozen=True):
    pool: Pool
    replica: str
    model: str
    started_us: int
    kind: AttemptKind = AttemptKind.FIRST
    rates: tuple[ListedRate, ...] = ()
    """Of its provider's list, where its pool has no price."""
    unit: str = ""
    """What its call may be sold by beside its tokens."""

    def record(
        self,
        meter: Counted | None,
        ended_us: int,
        outcome: str = RUNNING,
        fault: Fault | None = None,
    ) -> Attempt:
        """`meter` is None where nothing came, and `fault` where there is nothing to tell."""
        pool = self.pool
        usage = meter.reported if meter else Usage()
        outside = pool.is_external
        rate = rate_for(self.rates, usage.prompt) if self.rates else None
        prices = _of_pool(pool) if rate is None else _of_list(rate, usage.unit or self.unit)
        return Attempt(
            pool=pool.name,
            replica=self.replica,
            started_us=self.started_us,
            ended_us=ended_us,
            outcome=outcome,
            input=usage.input + usage.audio_input + usage.image_input,
            cached_input=usage.cached_input,
            output=usage.output + usage.audio_output + usage.image_output,
            cache_write=usage.cache_write,
            reasoning=usage.reasoning,
            units=usage.units,
            model=self.model,
            kind=self.kind,
            busy_us=meter.busy_us if meter else 0,
            nanousd_per_s=0 if outside else pool.cost_nanousd_per_s,
            input_nanousd_per_mtok=prices.input if outside else 0,
            output_nanousd_per_mtok=prices.output if outside else 0,
            cached_input_nanousd_per_mtok=prices.cached_input if outside else None,
            nanousd_per_unit=prices.unit if outside else 0,
            status=fault.status if fault else None,
            detail=fault.detail if fault else None,
        )


class BoughtAt(NamedTuple):
    """Nano-USD per million tokens, and of a unit. A cached token costs as others where it has no
    price."""

    input: int
    output: int
    cached_input: int | None
    unit: int


def _of_pool(pool: Pool) -> BoughtAt:
    return BoughtAt(
        pool.cost_input_nanousd_per_mtok,
        pool.cost_output_nanousd_per_mtok,
        pool.cost_cached_input_nanousd_per_mtok,
        pool.cost_nanousd_per_unit,
    )


def _of_list(rate: ListedRate, unit: str) -> BoughtAt:
    return BoughtAt(
        rate.input_nanousd_per_mtok,
        rate.output_nanousd_per_mtok,
        rate.cached_input_nanousd_per_mtok,
        rate.unit_nanousd(unit),
    )


def kind_after(attempts: Sequence[Attempt], model: str) -> AttemptKind:
    """Of an attempt that begins an answer once all of these have failed."""
    if not attempts:
        return AttemptKind.FIRST
    return AttemptKind.RETRY if attempts[-1].model == model else AttemptKind.FALLBACK
