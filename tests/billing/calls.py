"""Example payloads for tests of the money path."""

from __future__ import annotations

from typing import Any

import msgspec

from billing.types import (
    CallStatus,
    OpenedCall,
    SettledCall,
    UsageCheckpoint,
    UsageSource,
    utc_month,
)

ADMITTED_US = 1_790_000_000_000_000


def opened_call(rid: str = "req_1", **changes: Any) -> OpenedCall:
    call = OpenedCall(
        rid=rid,
        org="org_1",
        project="proj_1",
        key="key_1",
        gateway="gw-1",
        model_requested="auto",
        model="tale-large",
        tier="default",
        batch=False,
        price_version="pv_1",
        stream=True,
        tokens_estimate=300,
        hold_nanousd=1_000,
        prompt_tokens=44,
        admitted_us=ADMITTED_US,
        scopes=["key:key_1", "project:proj_1", "org:org_1"],
        month=utc_month(ADMITTED_US),
    )
    return msgspec.structs.replace(call, **changes)


def checkpoint(seq: int = 1, **changes: Any) -> UsageCheckpoint:
    value = UsageCheckpoint(
        seq=seq,
        model="tale-large",
        tier="default",
        pool="large-reserved",
        input=44,
        cached_input=0,
        output=10 * seq,
        at_us=ADMITTED_US + seq,
    )
    return msgspec.structs.replace(value, **changes)


def settled_call(opened: OpenedCall, amount_nanousd: int = 700, **changes: Any) -> SettledCall:
    call = SettledCall(
        rid=opened.rid,
        org=opened.org,
        project=opened.project,
        key=opened.key,
        gateway=opened.gateway,
        model_requested=opened.model_requested,
        model=opened.model,
        variant="fp16",
        pool="large-reserved",
        capacity_class="reserved",
        tier=opened.tier,
        batch=opened.batch,
        price_version=opened.price_version,
        status=CallStatus.ANSWERED,
        finish_reason="stop",
        source=UsageSource.EXACT,
        input=opened.prompt_tokens,
        cached_input=0,
        output=56,
        amount_nanousd=amount_nanousd,
        admitted_us=opened.admitted_us,
        first_token_us=opened.admitted_us + 1,
        ended_us=opened.admitted_us + 2,
    )
    return msgspec.structs.replace(call, **changes)
