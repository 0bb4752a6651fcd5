"""The charge of a call that was cut: the usage at its last checkpoint, and nothing if there is
none.

Pure, and the one builder of estimated settlements. The reaper and the replay of a spool both come
here, so they agree. Law: the charge of a cut stream is no less than its last checkpoint and no more
than what was generated. The charge of a whole answer that was cut is zero.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from billing.types import (
    CallStatus,
    OpenedCall,
    SettledCall,
    Usage,
    UsageCheckpoint,
    UsageSource,
    recorded,
)

GATEWAY_LOST = "gateway_lost"


class Rate(Protocol):
    """The charge in nano-USD of usage at a frozen price version."""

    def __call__(
        self, *, model: str, tier: str, batch: bool, usage: Usage, price_version: str
    ) -> int: ...


def cut_call(
    opened: OpenedCall, checkpoint: UsageCheckpoint | None, *, ended_us: int, rate: Rate
) -> SettledCall:
    """Settle a call whose gateway died. Without a checkpoint nothing was dispatched, so there is no
    charge. A whole answer has no charge either, because nothing of it had left. The same holds for
    one that fails while its gateway lives."""
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
        **recorded(usage),
        amount_nanousd=amount,
        admitted_us=opened.admitted_us,
        first_token_us=None,
        ended_us=max(ended_us, opened.admitted_us),
        attempts=[checkpoint.attempt] if checkpoint and checkpoint.attempt else [],
        error_code=GATEWAY_LOST,
        budgets=opened.budgets,
        idempotency=opened.idempotency,
        route=opened.route,
        is_simulated=checkpoint.is_simulated if checkpoint else msgspec.UNSET,
    )


def later(one: UsageCheckpoint | None, other: UsageCheckpoint | None) -> UsageCheckpoint | None:
    """The one of two checkpoints of a call that saw more."""
    if one is None or other is None:
        return one or other
    return one if one.seq >= other.seq else other
