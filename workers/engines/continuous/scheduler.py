"""What the next step computes: the waiting sequences that get a row, and how many prompt tokens of
each staged one are prefilled. Pure; knows no model and no tokens. Guards the bounds: rows, slots,
and prefill work per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The number of sequences to take from the head of the queue. A staged sequence already owns
    the slot in which it will decode."""
    slots_free = limits.slots - occupancy.staging - occupancy.decoding
    staging_free = limits.staging_rows - occupancy.staging
    return max(0, min(occupancy.waiting, slots_free, staging_free))


def next_in_turn(waiting: Sequence[str], held: Mapping[str, int]) -> int:
    """The place in the queue of the next sequence, given the call of each and how many sequences a
    call already has in rows. It is the first one whose call has fewest. So a call of many sequences
    never stands before one of few, and keeps a row however many come after it."""
    return min(range(len(waiting)), key=lambda place: held.get(waiting[place], 0))


def prefill_chunks(remaining: Sequence[int], limits: Limits) -> list[int]:
    """The prompt tokens to compute of each staged sequence, given what remains of each. Rows are
    computed together and padded to the longest, so each gets the same share. So a short newcomer
    passes a long prompt within one step."""
    if not remaining:
        return []
    share = limits.prefill_tokens_max // len(remaining)
    return [min(tokens, share) for tokens in remaining]
