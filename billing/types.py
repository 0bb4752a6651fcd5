"""The payloads that a call leaves behind: opened, checkpointed, settled.

Frozen values with a version. Their bytes are the same in Redis, in the stream and in the spool.
This module knows no SQL, no Redis and no prices. It guards that token classes are disjoint, and
that a `SettledCall` has everything that rating it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from operator import add, attrgetter
from typing import Any, Literal

import msgspec


class CallStatus(StrEnum):
    """How a call ended. Every received call ends with exactly one of these."""

    ANSWERED = "answered"
    CANCELLED = "cancelled"
    FAILED = "failed"
    REFUSED = "refused"


class UsageSource(StrEnum):
    """`estimated` is provisional: a later `exact` record supersedes it."""

    EXACT = "exact"
    ESTIMATED = "estimated"


class Usage(msgspec.Struct, frozen=True):
    """Disjoint token classes. `input` never contains tokens that were read from or written to a
    cache, or that stand for sound or images; `output` never the reasoning, sound or images.

    `gpu_ms` is no token: it is counted where it has a price. Nor are `units`: what a call is sold
    by beside its tokens, of the one kind that `unit` names (`billing.prices.units`).
    """

    input: int = 0
    cached_input: int = 0
    output: int = 0
    cache_write: int = 0
    reasoning: int = 0
    gpu_ms: int = 0
    audio_input: int = 0
    image_input: int = 0
    audio_output: int = 0
    image_output: int = 0
    units: int = 0
    unit: str = ""

    @property
    def prompt(self) -> int:
        tokens = self.input + self.cached_input + self.cache_write
        return tokens + self.audio_input + self.image_input

    @property
    def completion(self) -> int:
        """The tokens that were generated, shown or not."""
        return self.output + self.reasoning + self.audio_output + self.image_output

    @property
    def total(self) -> int:
        """Tokens of all classes."""
        return sum(_tokens(self))

    @property
    def is_nothing(self) -> bool:
        """Neither tokens nor units, so nothing is owed."""
        return not (self.input or self.output or self.units or any(_tokens(self)))

    @property
    def has_others(self) -> bool:
        """It has other tokens than input, cached input and output."""
        of_text = self.cache_write or self.reasoning
        of_prompt = self.audio_input or self.image_input
        return bool(of_text or of_prompt or self.audio_output or self.image_output)

    def within(self, prompt: int, completion: int, units: int = 0) -> Usage:
        """The same usage with at most so many tokens of prompt and of completion, and so many
        units. Tokens read from a cache, and visible tokens of the answer, are counted first."""
        if self.prompt <= prompt and self.completion <= completion and self.units <= units:
            return self
        counts = {"units": min(self.units, units)}
        for names, left in ((PROMPT, prompt), (COMPLETION, completion)):
            for name in names:
                counts[name] = min(getattr(self, name), left)
                left -= counts[name]
        return msgspec.structs.replace(self, **counts)

    def __add__(self, other: Usage) -> Usage:
        return usage_from(map(add, counts_of(self), counts_of(other)), self.unit or other.unit)


COUNTS = tuple(name for name in Usage.__struct_fields__ if name != "unit")
"""Whatever has a usage has these fields: records, rows and sums."""
PROMPT = ("cached_input", "input", "cache_write", "audio_input", "image_input")
COMPLETION = ("output", "reasoning", "audio_output", "image_output")
TOKEN_CLASSES = tuple(name for name in COUNTS if name not in ("gpu_ms", "units"))
counts_of = attrgetter(*COUNTS)
_tokens = attrgetter(*TOKEN_CLASSES)


def usage_of(row: Any) -> Usage:
    """The usage in a row. The units of a sum may be of several kinds, so it names none."""
    return usage_from(counts_of(row), getattr(row, "unit", ""))


def usage_from(counts: Iterable[int], unit: str = "") -> Usage:
    """The usage of `counts` in the order of COUNTS."""
    values: list[Any] = [*counts, unit]
    return Usage(*values)


class RareUsage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The classes that few calls use. The records of others keep their size and their bytes."""

    audio_input: int = 0
    image_input: int = 0
    audio_output: int = 0
    image_output: int = 0
    units: int = 0
    unit: str = ""


_RARE = RareUsage.__struct_fields__
_COMMON = tuple(name for name in Usage.__struct_fields__ if name not in _RARE)
_NOTHING_RARE = RareUsage()
_common = attrgetter(*_COMMON)
_rare = attrgetter(*_RARE)


def _usage_in(record: UsageCheckpoint | SettledCall) -> Usage:
    return Usage(*_common(record), *(_rare(record.rare) if record.rare else ()))


def recorded(usage: Usage) -> dict[str, Any]:
    """The fields that say it in a record."""
    fields: dict[str, Any] = dict(zip(_COMMON, _common(usage), strict=True))
    rare = RareUsage(*_rare(usage))
    return fields if rare == _NOTHING_RARE else fields | {"rare": rare}


class BudgetShare(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A budget that binds a call, and where in it the call counts.

    In a calendar a call counts in the period in which it was admitted: `start_us` to `until_us`,
    which is 0 where there is no end. In a rolling span (`span_us`) it counts in the part of
    `width_us` in which it ended. `subject` is the digest of an end user, "" for owners.
    """

    budget: str
    subject: str = ""
    start_us: int = 0
    until_us: int = 0
    span_us: int = 0
    width_us: int = 0
    is_hard: bool = False

    def bucket_us(self, ended_us: int) -> int:
        """The bucket to which the cost of the call is added."""
        return ended_us - ended_us % self.width_us if self.width_us else self.start_us


class _Recorded(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A value that is written more than once, in the spool and in Redis. Its JSON is made once."""

    @cached_property
    def encoded(self) -> bytes:
        return _ENCODER.encode(self)


class Route(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which rule of the routing policy sent a call on its way, and why it went there, in words.
    `is_canary` says which side of the rule's canary; it is None where the rule has none."""

    rule: str
    policy_revision: int
    is_canary: bool | None = None
    reason: str = ""
    wait_pool: str | None = None
    """The last pool that the call waited for. It and what follows are None where it never did."""
    redecisions: int | None = None
    """How often it was decided anew while it waited."""
    wait_end: str | None = None
    """What came of the last time; None where its caller left."""


class _OfCall(_Recorded, frozen=True, kw_only=True):
    """How the record of a call begins: whose call it is, and for which model."""

    v: Literal[1] = 1
    rid: str
    org: str
    project: str
    key: str
    gateway: str
    model_requested: str
    model: str


class OpenedCall(_OfCall, frozen=True, kw_only=True):
    """A call that was admitted, and its price version. `month` is UTC, `YYYYMM`."""

    tier: str
    batch: bool
    price_version: str
    stream: bool
    tokens_estimate: int
    hold_nanousd: int
    prompt_tokens: int
    admitted_us: int
    scopes: list[str]
    month: str
    budgets: list[BudgetShare] = []
    idempotency: str | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of the call's `Idempotency-Key` in hex; not there where it has none."""
    route: Route | msgspec.UnsetType = msgspec.UNSET
    """Not there in records of older releases, which keep their bytes."""


MOVED = "moved"
"""The outcome of an attempt whose answer went on elsewhere."""


OVERTAKEN = "overtaken"
"""The outcome of an attempt beside another one, which had its first token first."""


class AttemptKind(StrEnum):
    """Why an attempt was made. It is decided where the attempt begins."""

    FIRST = "first"
    RETRY = "retry"
    """After a failure, the same model: at the same place or at another one."""
    FALLBACK = "fallback"
    """After a failure, another model."""
    HEDGE = "hedge"
    """Beside an attempt that is slow, before its first token."""
    RESUME = "resume"
    """Behind what another attempt has delivered: the answer goes on there."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One try at one replica: what it delivered, and the prices of its pool when it began. On our
    own workers it has its share of the replica's time, outside it has tokens and units. Tokens of
    sound and images cost us as text does, so they stand in `input` and `output`."""

    pool: str
    replica: str
    started_us: int
    ended_us: int
    outcome: str
    input: int = 0
    cached_input: int = 0
    output: int = 0
    cache_write: int = 0
    reasoning: int = 0
    units: int = 0
    model: str = ""
    kind: AttemptKind = AttemptKind.FIRST
    busy_us: int = 0
    nanousd_per_s: int = 0
    input_nanousd_per_mtok: int = 0
    output_nanousd_per_mtok: int = 0
    cached_input_nanousd_per_mtok: int | None = None
    """None: as of a token that is not cached."""
    nanousd_per_unit: int = 0
    status: int | None = None
    """Of the answer, where the server refused; `detail` is what it said then, or else which hints
    it was not sent: for operators."""
    detail: str | None = None

    @property
    def delivered(self) -> int:
        """The sum of the tokens of all classes, and of units."""
        text = self.input + self.cached_input + self.output + self.cache_write + self.reasoning
        return text + self.units


class UsageCheckpoint(_Recorded, frozen=True, kw_only=True):
    """Cumulative usage of a running call. Of two checkpoints the one with the higher `seq` counts.
    `attempt` is the serving one, as far as it has come."""

    v: Literal[1] = 1
    seq: int
    model: str
    tier: str
    pool: str
    input: int
    cached_input: int
    output: int
    at_us: int
    cache_write: int = 0
    reasoning: int = 0
    gpu_ms: int = 0
    attempt: Attempt | None = None
    is_simulated: bool | msgspec.UnsetType = msgspec.UNSET
    """As in `SettledCall`."""

    rare: RareUsage | msgspec.UnsetType = msgspec.UNSET

    @property
    def usage(self) -> Usage:
        return _usage_in(self)


class SettledCall(_OfCall, frozen=True, kw_only=True):
    """How a call ended, and what is owed for it. `model`, `pool` and `tier` are those that served
    it."""

    variant: str
    pool: str
    capacity_class: str
    tier: str
    batch: bool
    price_version: str
    status: CallStatus
    finish_reason: str | None
    source: UsageSource
    input: int
    cached_input: int
    output: int
    amount_nanousd: int
    admitted_us: int
    first_token_us: int | None
    ended_us: int
    attempts: list[Attempt] = []
    decision: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    """Of records that an older release wrote, so that they keep their bytes. Now what a decision
    was made from is kept apart (`billing.decisions`)."""
    error_code: str | None = None
    cache_write: int = 0
    reasoning: int = 0
    gpu_ms: int = 0
    budgets: list[BudgetShare] = []
    idempotency: str | msgspec.UnsetType = msgspec.UNSET
    """As in `OpenedCall`."""
    route: Route | msgspec.UnsetType = msgspec.UNSET
    """As in `OpenedCall`, with the words of the pool that served."""
    is_simulated: bool | msgspec.UnsetType = msgspec.UNSET
    """True where a simulated pool served it. Not there elsewhere, so that others keep their
    bytes."""

    rare: RareUsage | msgspec.UnsetType = msgspec.UNSET

    @property
    def usage(self) -> Usage:
        return _usage_in(self)


Payload = OpenedCall | UsageCheckpoint | SettledCall

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a decoder raises of bytes that are no JSON, are nested too deeply, or have another shape."""

_ENCODER = msgspec.json.Encoder()
_OPENED = msgspec.json.Decoder(OpenedCall)
_CHECKPOINT = msgspec.json.Decoder(UsageCheckpoint)
_SETTLED = msgspec.json.Decoder(SettledCall)


def encode(payload: Payload) -> bytes:
    """Compact JSON with every field, in declared order: equal payloads give equal bytes."""
    return payload.encoded


def decode_opened(data: bytes | str) -> OpenedCall:
    """Raises msgspec.ValidationError on another shape or an unknown version."""
    return _OPENED.decode(data)


def decode_checkpoint(data: bytes | str) -> UsageCheckpoint:
    """Raises msgspec.ValidationError on another shape or an unknown version."""
    return _CHECKPOINT.decode(data)


def decode_settled(data: bytes | str) -> SettledCall:
    """Raises msgspec.ValidationError on another shape or an unknown version."""
    return _SETTLED.decode(data)


def utc_month(at_us: int) -> str:
    """`YYYYMM` of the UTC month an instant lies in."""
    return _month_of_day(at_us // 86_400_000_000)


@lru_cache(maxsize=64)
def _month_of_day(day: int) -> str:
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y%m")
