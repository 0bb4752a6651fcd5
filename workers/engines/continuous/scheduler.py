"""What the next step computes: how many waiting sequences get a row, and how many prompt tokens of
each staged one are prefilled. Pure; knows no model and no tokens. Guards the bounds: rows, slots,
and prefill work per step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    slots: int
    staging_rows: int
    prefill_tokens_max: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    waiting: int
    staging: int
    decoding: int


def admissions(occupancy: Occupancy, limits: Limits) -> int:
    """Sequences to take from the head of the queue. A staged sequence already owns the slot it will
    decode in."""
    slots_free = limits.slots - occupancy.staging - occupancy.decoding
    staging_free = limits.staging_rows - occupancy.staging
    return max(0, min(occupancy.waiting, slots_free, staging_free))


def prefill_chunks(remaining: Sequence[int], limits: Limits) -> list[int]:
    """Prompt tokens to compute of each staged sequence, given what remains of each. Rows are
    computed together and padded to the longest, so each gets the same share: a short newcomer
    passes a long prompt within one step."""
    if not remaining:
        return []
    share = limits.prefill_tokens_max // len(remaining)
    return [min(tokens, share) for tokens in remaining]
