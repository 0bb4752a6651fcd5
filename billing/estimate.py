"""What a call that was cut owes: what its last checkpoint saw, and nothing if there is none.

Pure, and the one builder of estimated settlements: the reaper and the replay of a spool agree
because both come here. Law: the charge of a cut stream is no less than its last checkpoint and no
more than what was generated; that of a whole answer is zero.
"""

from __future__ import annotations

from typing import Protocol

from billing.types import (
    CallStatus,
    OpenedCall,
    SettledCall,
    Usage,
    UsageCheckpoint,
    UsageSource,
)

GATEWAY_LOST = "gateway_lost"


class Rate(Protocol):
    """Charge in nano-USD of usage at a frozen price version."""

    def __call__(
        self, *, model: str, tier: str, batch: bool, usage: Usage, price_version: str
    ) -> int: ...


def cut_call(
    opened: OpenedCall, checkpoint: UsageCheckpoint | None, *, ended_us: int, rate: Rate
) -> SettledCall:
    """Settle a call whose gateway died. Without a checkpoint nothing was dispatched: no charge. Nor
    for a whole answer: nothing of it had left, as of one that fails while its gateway lives."""
    usage = checkpoint.usage if checkpoint and opened.stream else Usage()
    model = checkpoint.model if checkpoint else opened.model
    tier = checkpoint.tier if checkpoint else opened.tier
    amount = 0
    if checkpoint:
        amount = rate(
            model=model,
            tier=tier,
            batch=opened.batch,
            usage=usage,
            price_version=opened.price_version,
        )
    return SettledCall(
        rid=opened.rid,
        org=opened.org,
        project=opened.project,
        key=opened.key,
        gateway=opened.gateway,
        model_requested=opened.model_requested,
        model=model,
        variant="",
        pool=checkpoint.pool if checkpoint else "",
        capacity_class="",
        tier=tier,
        batch=opened.batch,
        price_version=opened.price_version,
        status=CallStatus.FAILED,
        finish_reason=None,
        source=UsageSource.ESTIMATED,
        input=usage.input,
        cached_input=usage.cached_input,
        output=usage.output,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
        gpu_ms=usage.gpu_ms,
        amount_nanousd=amount,
        admitted_us=opened.admitted_us,
        first_token_us=None,
        ended_us=max(ended_us, opened.admitted_us),
        attempts=[checkpoint.attempt] if checkpoint and checkpoint.attempt else [],
        error_code=GATEWAY_LOST,
        budgets=opened.budgets,
    )


def later(one: UsageCheckpoint | None, other: UsageCheckpoint | None) -> UsageCheckpoint | None:
    """Of two checkpoints of a call the one that saw more."""
    if one is None or other is None:
        return one or other
    return one if one.seq >= other.seq else other
