"""The state that the scripts keep, as bytes. The scripts have these layouts too.

Every number is an integer that a double carries exactly. Sums outgrow that, so they have a high and
a low part. The version of all layouts stands in the names of the keys (`keys.LAYOUT`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, nextafter
from struct import Struct

from billing.limits.gcra import Bucket
from billing.limits.types import Dimension

PART = 10**15
"""A sum is `high * PART + low`."""

SCOPE = "<ddddddddddd"
"""Held, running (open holds), spent in all (high, low), the latest month with what was spent in it
(high, low), when the request bucket will be empty and what was ever given back to it, the same of
the token bucket. What earlier months spent stands in a hash."""

CALL = "<cBBdddddHHI"
"""Kind (h held, e settled as estimated), number of scopes and of meters, held or settled amount,
input and output tokens counted, month, ms until which the lease runs, lengths of the names of
scopes, of those of meters, and of the opened payload. Then LIMITS of every scope, every METER,
MARKS of every scope, a MARK of every meter, the names of the scopes with a space between, those of
the meters, the opened payload; what is left is the checkpoint. An `e` has no payloads."""

SETTLED = "<cBd"
"""What is left of a call that was settled exactly: x, 0, amount."""

LIMITS = "<ddddddddd"
"""The limits of a scope a call was admitted under: request cost, tokens per minute (0 is no limit),
which are what settling asks for, then request tolerance, token cost, token tolerance (microseconds;
a cost of -1 is no limit), concurrency, budget (infinite is none), whether the budget counts the
month (1) or all (0), and what may be spent ever (infinite: whatever it comes to)."""

MARKS = "<dd"
"""A call's place in both buckets (see gcra.py), token bucket first; 0 is forgotten: no refund."""

LEVELS = "<dd"
"""What admit answers of a scope: microseconds in the request and the token bucket, -1: no limit."""

METER = "<cddd"
"""A limit with a state of its own: what it counts (r requests, t tokens, i input tokens, o output
tokens, c calls at once), units per minute, cost of the call and tolerance in microseconds; of
calls at once both numbers are how many. A purse (p) has what may be spent, the width of the parts
of a rolling span (0: it is a period), and the span, or when its period ends (0: never)."""

BUCKET = "<ddd"
"""The state of a meter: when its bucket will be empty, what was ever given back to it, and when the
state began (it is forgotten once it is empty, and begun anew)."""

MARK = "<dd"
"""A call's place in the bucket of a meter, and which life of that it was: only the same gives
back. Of a purse the part of its span in which a call was settled, as an estimate."""

PURSE = "<ddH"
"""The state of a purse: nano-USD held and spent, the length of the name of the life of the shard
in which that was counted, which follows: what another life left behind counts for nothing. Then of
a rolling span every SLICE that had charges, the oldest first."""

SLICE = "<dd"
"""A part of a rolling span: when it begins, and what was spent in it."""

LEVEL = "<d"
"""What admit answers of a meter: microseconds in its bucket, -1 of calls at once."""

REQUEST = "<dddddB"
"""What admit is asked for: input and output tokens, hold, lease (ms), month, number of meters. The
LIMITS of every scope and every METER follow."""

ENDED = "<ddddddddd"
"""What settle is told: amount, input and output tokens, whether that is exact, whether rates come
back, whether only an overdue hold is meant (1 or 0), for a lost hold the month and the amount
booked already, and when the call ended."""

EXACT_REMEMBERED_S = 3600
"""Long enough for repeats that do not ask SQL first; about 100 bytes a call stay in Redis."""
ESTIMATED_REMEMBERED_S = 8 * 24 * 3600
"""Longer than spool segments are kept, so that a replayed exact record finds what it corrects."""

PURSE_TTL_MS = 8 * 24 * 3600 * 1000
"""A purse stays so long after its period: what is settled late finds it."""

SLOT_TTL_MS = 600_000
"""The leases of calls at once are forgotten so long after the last of them: longer than leases of
gateways with other settings run."""

SCOPES_MAX = 255
NAMES_MAX = 65_535

_SCOPE, _CALL, _SETTLED, _LIMITS = map(Struct, (SCOPE, CALL, SETTLED, LIMITS))
_MARKS, _LEVELS, _REQUEST, _ENDED = map(Struct, (MARKS, LEVELS, REQUEST, ENDED))
_METER, _BUCKET, _MARK, _LEVEL = map(Struct, (METER, BUCKET, MARK, LEVEL))
_PURSE, _SLICE = map(Struct, (PURSE, SLICE))

CONSTANTS = {
    "PART": str(PART),
    "SCOPE": f"'{SCOPE}'",
    "NEW": "'" + r"\0" * _SCOPE.size + "'",
    "CALL": f"'{CALL}'",
    "SETTLED": f"'{SETTLED}'",
    "SCOPES_MAX": str(SCOPES_MAX),
    "LIMITS": f"'{LIMITS}'",
    "LIMITS_AT": str(_CALL.size + 1),
    "LIMITS_SIZE": str(_LIMITS.size),
    "MARKS": f"'{MARKS}'",
    "MARKS_SIZE": str(_MARKS.size),
    "LEVELS": f"'{LEVELS}'",
    "METER": f"'{METER}'",
    "METER_SIZE": str(_METER.size),
    "BUCKET": f"'{BUCKET}'",
    "EMPTY": "'" + r"\0" * _BUCKET.size + "'",
    "MARK": f"'{MARK}'",
    "MARK_SIZE": str(_MARK.size),
    "LEVEL": f"'{LEVEL}'",
    "PURSE": f"'{PURSE}'",
    "PURSE_SIZE": str(_PURSE.size),
    "PURSE_TTL_MS": str(PURSE_TTL_MS),
    "SLICE": f"'{SLICE}'",
    "SLICE_SIZE": str(_SLICE.size),
    "SLOT_TTL_MS": str(SLOT_TTL_MS),
    "REQUEST": f"'{REQUEST}'",
    "REQUEST_SIZE": str(_REQUEST.size),
    "ENDED": f"'{ENDED}'",
    "EXACT_REMEMBERED_S": str(EXACT_REMEMBERED_S),
    "ESTIMATED_REMEMBERED_S": str(ESTIMATED_REMEMBERED_S),
}
"""Names in the scripts, and what they stand for there."""

NO_BUCKET = (-1, inf)
"""Cost and tolerance where there is no limit."""
EMPTY = Bucket()


@dataclass(frozen=True, slots=True)
class ScopeState:
    """`month` (YYYYMM, 0: none yet) is the latest month in which anything was spent."""

    held_nanousd: int = 0
    running: int = 0
    spent_nanousd: int = 0
    month: int = 0
    month_nanousd: int = 0
    requests: Bucket = EMPTY
    tokens: Bucket = EMPTY


@dataclass(frozen=True, slots=True)
class OpenState:
    """An open hold. The payloads are as they came."""

    held_nanousd: int
    due_ms: int
    opened: bytes
    checkpoint: bytes


@dataclass(frozen=True, slots=True)
class ClosedState:
    amount_nanousd: int
    is_exact: bool


def decode_scope(data: bytes | None) -> ScopeState:
    """The state of a scope. A scope that Redis does not know is new."""
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
    kind, scopes, meters, amount, _, _, _, due_ms, *sizes = _CALL.unpack_from(data)
    if kind == b"e":
        return ClosedState(int(amount), is_exact=False)
    names_size, meter_names_size, opened_size = sizes
    limits_size = scopes * (_LIMITS.size + _MARKS.size) + meters * (_METER.size + _MARK.size)
    opened_at = _CALL.size + limits_size + names_size + meter_names_size
    checkpoint_at = opened_at + opened_size
    return OpenState(int(amount), int(due_ms), data[opened_at:checkpoint_at], data[checkpoint_at:])


def encode_admit(
    *,
    input_tokens: int,
    output_tokens: int,
    hold_nanousd: int,
    lease_ms: int,
    month: str,
    meters: int,
) -> bytes:
    return _REQUEST.pack(input_tokens, output_tokens, hold_nanousd, lease_ms, int(month), meters)


def encode_ended(
    *,
    amount_nanousd: int,
    input_tokens: int,
    output_tokens: int,
    is_exact: bool,
    is_refund: bool,
    only_if_due: bool,
    month: str,
    booked_nanousd: int,
    ended_us: int,
) -> bytes:
    return _ENDED.pack(
        *(amount_nanousd, input_tokens, output_tokens),
        *(is_exact, is_refund, only_if_due, int(month), booked_nanousd, ended_us),
    )


def encode_limits(
    requests_us: tuple[float, float],
    tokens_us: tuple[float, float],
    concurrency: int | None,
    budget_nanousd: int | None,
    tokens_per_minute: int | None,
    *,
    is_monthly: bool,
    ceiling_nanousd: int | None = None,
) -> bytes:
    """The limits of one scope: cost and tolerance of both buckets first; None is no limit."""
    return _LIMITS.pack(
        requests_us[0],
        tokens_per_minute or 0,
        requests_us[1],
        *tokens_us,
        inf if concurrency is None else concurrency,
        inf if budget_nanousd is None else budget_nanousd,
        is_monthly,
        inf if ceiling_nanousd is None else _at_most(ceiling_nanousd),
    )


def _at_most(amount: int) -> float:
    """The largest double that is not above an amount. Beyond 2**53 not every amount is a double."""
    near = float(amount)
    return nextafter(near, -inf) if near > amount else near


LIMITS_COST_AT, METER_COST_AT = 3 * 8, 1 + 8
"""Where in them stands what a call costs in tokens."""

put_cost = Struct("<d").pack_into

METER_KINDS = {
    Dimension.REQUESTS: b"r",
    Dimension.TOKENS: b"t",
    Dimension.INPUT_TOKENS: b"i",
    Dimension.OUTPUT_TOKENS: b"o",
    Dimension.CONCURRENCY: b"c",
}


def encode_meter(
    dimension: Dimension, per_minute: int, cost_us: float, tolerance_us: float
) -> bytes:
    return _METER.pack(METER_KINDS[dimension], per_minute, cost_us, tolerance_us)


def encode_purse(amount_nanousd: int, width_us: int, lasts_us: int) -> bytes:
    """The METER of a purse."""
    return _METER.pack(b"p", amount_nanousd, width_us, lasts_us)


def encode_slices(slices: Iterable[tuple[int, int]]) -> bytes:
    """The parts of a span, oldest first."""
    return b"".join(_SLICE.pack(*part) for part in sorted(slices))


def decode_purse(data: bytes | None, life: str, oldest_us: int) -> tuple[int, int]:
    """Nano-USD held and spent. Parts before `oldest_us` do not count."""
    if data is None:
        return 0, 0
    held, spent, size = _PURSE.unpack_from(data)
    parts_at = _PURSE.size + size
    if data[_PURSE.size : parts_at].decode() != life:
        return 0, 0
    past = sum(n for begins, n in _SLICE.iter_unpack(data[parts_at:]) if begins < oldest_us)
    return int(held), int(spent - past)


def decode_levels(data: bytes) -> list[int]:
    """The levels: two of every scope, then one of every meter."""
    return [int(level) for (level,) in _LEVEL.iter_unpack(data)]
