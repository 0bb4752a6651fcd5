"""The state the scripts keep, as bytes: what common.lua says in Lua, said in Python.

Every number is an integer that a double carries exactly; sums, which outgrow that, have a high and
a low part. The version of these layouts stands in the names of their keys (`keys.LAYOUT`).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from struct import Struct

from billing.limits.gcra import Bucket

PART = 10**15
_SCOPE = Struct("<11d")
_CALL = Struct("<cB4dHI")
_SETTLED = Struct("<cBd")
_LIMITS = Struct("<8d")
_MARKS_SIZE = 16
SCOPES_MAX = 255
NAMES_MAX = 65_535
NO_BUCKET = (-1, inf)
"""Cost and tolerance where there is no limit."""
EMPTY = Bucket()


@dataclass(frozen=True, slots=True)
class ScopeState:
    """`month` (YYYYMM, 0: none yet) is the latest anything was spent in."""

    held_nanousd: int = 0
    running: int = 0
    spent_nanousd: int = 0
    month: int = 0
    month_nanousd: int = 0
    requests: Bucket = EMPTY
    tokens: Bucket = EMPTY


@dataclass(frozen=True, slots=True)
class OpenState:
    """An open hold; the payloads are as they came."""

    held_nanousd: int
    due_ms: int
    opened: bytes
    checkpoint: bytes


@dataclass(frozen=True, slots=True)
class ClosedState:
    amount_nanousd: int
    is_exact: bool


def decode_scope(data: bytes | None) -> ScopeState:
    """A scope Redis does not know is new."""
    if data is None:
        return ScopeState()
    held, running, high, low, month, month_high, month_low, *buckets = map(int, _SCOPE.unpack(data))
    rq, rr, tk, tr = buckets
    return ScopeState(
        held_nanousd=held,
        running=running,
        spent_nanousd=high * PART + low,
        month=month,
        month_nanousd=month_high * PART + month_low,
        requests=Bucket(rq, rr),
        tokens=Bucket(tk, tr),
    )


def decode_call(data: bytes) -> OpenState | ClosedState:
    if data[:1] == b"x":
        return ClosedState(int(_SETTLED.unpack(data)[2]), is_exact=True)
    kind, scopes, amount, _, _, due_ms, names_size, opened_size = _CALL.unpack_from(data)
    if kind == b"e":
        return ClosedState(int(amount), is_exact=False)
    opened_at = _CALL.size + scopes * (_LIMITS.size + _MARKS_SIZE) + names_size
    checkpoint_at = opened_at + opened_size
    return OpenState(int(amount), int(due_ms), data[opened_at:checkpoint_at], data[checkpoint_at:])


def encode_limits(
    requests_us: tuple[float, float],
    tokens_us: tuple[float, float],
    concurrency: int | None,
    budget_nanousd: int | None,
    tokens_per_minute: int | None,
    *,
    is_monthly: bool,
) -> bytes:
    """The limits of one scope: cost and tolerance of both buckets first; None is no limit."""
    return _LIMITS.pack(
        *requests_us,
        *tokens_us,
        inf if concurrency is None else concurrency,
        inf if budget_nanousd is None else budget_nanousd,
        tokens_per_minute or 0,
        is_monthly,
    )
