"""What has come of calls, in sums: bumped once a call, when it has ended, and read by a scrape.

Plain integers in lists, as a counter of a library costs more than all of these together. Labels are
names of the catalog and words of ours: nothing of a tenant, and never more than `SERIES_MAX`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from billing.costs.attempts import tokens_above_hold
from billing.types import MOVED, AttemptKind, SettledCall
from gateway.errors import ApiError

SERIES_MAX = 2_000
"""Combinations of labels; what comes beyond them is counted as `other`."""
OTHER = "other"
LOST = "lost"
DISCONNECTED = "upstream_disconnected"
CODES = frozenset(
    {
        "context_length_exceeded",
        "deadline_exceeded",
        "end_user_required",
        "idempotency_key_reused",
        "insufficient_quota",
        "invalid_api_key",
        "invalid_type",
        "invalid_value",
        "missing_required_parameter",
        "model_not_found",
        "model_not_priced",
        "organization_frozen",
        "provider_misconfigured",
        "rate_limit_exceeded",
        "request_too_large_for_limit",
        "server_is_overloaded",
        "upstream_disconnected",
    }
)
"""Others may be words of a server outside."""
MS = 1_000
TTFT_US = tuple(ms * MS for ms in (25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000))
DURATION_US = tuple(
    ms * MS
    for ms in (50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000, 120_000, 600_000)
)

Calls = tuple[str, str, str, str]
"""Model, tier, pool and status."""


@dataclass(slots=True)
class EndedCalls:
    """Calls of one model, tier, pool and status. Of a histogram each bucket counts on its own, the
    last one what is beyond all bounds."""

    calls: int = 0
    input: int = 0
    cached_input: int = 0
    output: int = 0
    reasoning: int = 0
    prompt_above_hold: int = 0
    completion_above_hold: int = 0
    ttft: list[int] = field(default_factory=lambda: [0] * (len(TTFT_US) + 1))
    ttft_us: int = 0
    duration: list[int] = field(default_factory=lambda: [0] * (len(DURATION_US) + 1))
    duration_us: int = 0


class Tally:
    """`ended` by what the calls were, `refused` by status and code of what callers were told,
    `moves` by what became of answers whose worker was lost."""

    def __init__(self) -> None:
        self._ended: dict[Calls, EndedCalls] = {}
        self._refused: dict[tuple[int, str], int] = {}
        self.moves: dict[str, int] = {MOVED: 0, LOST: 0}
        self.attempts: Counter[tuple[AttemptKind, str]] = Counter()
        """By why they were made, and how they ended."""
        self.refused_retries: Counter[tuple[str, str]] = Counter()
        """Calls that ended for lack of further attempts, by model and pool that came next."""
        self.replayed_tokens = 0
        """Of prompts and answers that were computed again where an answer went on."""

    @property
    def ended(self) -> Mapping[Calls, EndedCalls]:
        return self._ended

    @property
    def refused(self) -> Mapping[tuple[int, str], int]:
        return self._refused

    def __call__(self, call: SettledCall) -> None:
        sums = self._ended.get((call.model, call.tier, call.pool, call.status))
        if sums is None:
            sums = self._begin(call)
        sums.calls += 1
        sums.input += call.input
        sums.cached_input += call.cached_input
        sums.output += call.output
        if call.reasoning:
            sums.reasoning += call.reasoning
        is_above = False
        for attempt in call.attempts:
            self.attempts[attempt.kind, attempt.outcome] += 1
            is_above = is_above or attempt.delivered > call.usage.total
        if is_above:
            prompt, completion = tokens_above_hold(call)
            sums.prompt_above_hold += prompt
            sums.completion_above_hold += completion
        if len(call.attempts) > 1 or call.error_code is not None:
            self._count_moves(call)
        began_us = call.admitted_us
        lasted_us = call.ended_us - began_us
        sums.duration[bisect_left(DURATION_US, lasted_us)] += 1
        sums.duration_us += lasted_us
        if (first_us := call.first_token_us) is not None:
            sums.ttft[bisect_left(TTFT_US, first_us - began_us)] += 1
            sums.ttft_us += first_us - began_us

    def _count_moves(self, call: SettledCall) -> None:
        output = 0
        for attempt in call.attempts:
            output += attempt.output
            if attempt.outcome == MOVED:
                self.moves[MOVED] += 1
                self.replayed_tokens += call.usage.prompt + output
        self.moves[LOST] += call.error_code == DISCONNECTED

    def refuse(self, error: ApiError) -> None:
        """A no, or a failure, that a caller was told."""
        what = error.status, error.code if error.code in CODES else OTHER
        self._refused[what] = self._refused.get(what, 0) + 1

    def refuse_retry(self, model: str, pool: str) -> None:
        """All calls together have had their further attempts, so this one has none there."""
        self.refused_retries[model, pool] += 1

    def _begin(self, call: SettledCall) -> EndedCalls:
        what = call.model, call.tier, call.pool, str(call.status)
        if len(self._ended) >= SERIES_MAX:
            what = OTHER, OTHER, OTHER, str(call.status)
        return self._ended.setdefault(what, EndedCalls())
