"""What this gateway has learned of calls, and says to decisions: how fast pools are, how many calls
share a start, how long answers get, how many tokens the bytes of a prompt are, and what of it a
server outside has cached.

The one place where attempts meet `routing/economics`. Does no input or output and reads no clock.
What it says of a pool is frozen into the state of the fleet, and what it says of a call into the
call, so that a decision stays a function of both.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from gateway.call.meter import Meter
from routing.economics.cache_shares import CacheShares
from routing.economics.calibration import Verdict
from routing.economics.lengths import Lengths, Scope, TokensOfBytes
from routing.economics.predictor import NO_LOAD, Facts, Load, Predictor
from routing.economics.rates import (
    NOTHING_COUNTED,
    PRIOR_CALLS_PER_START,
    Occurrences,
    calls_per_start,
    in_steps,
)
from routing.economics.roofline import Roofline
from routing.economics.targets import line_of, target_of
from routing.replicas.work import Work, reconciled
from routing.speeds import Speeds
from routing.types import Call, Pool, PoolState, Replica, ReplicaState

MORE_TOKENS_THAN_BYTES = "more_tokens_than_bytes"
ALL_OBSERVED = 500
"""Of a target, first observations that are all taken. Later ones come EVERY_S apart: what is known
by then changes slowly, and each costs the CPU some hundredth of a millisecond."""
EVERY_S = 0.02


class SentCall:
    """One attempt, from when it was sent on: what was known then stays, whatever comes."""

    def __init__(self, learner: "Learner", call: Call, pool: Pool, load: Load) -> None:
        self._learner = learner
        self._call = call
        self._pool = pool
        self._load = load
        self._is_watched = False

    def first_token(self, meter: Meter, started_s: float) -> None:
        if meter.first_token_s is not None and self._watched(started_s):
            self._learner.first_token(self._facts(meter), meter.first_token_s - started_s)

    def ended(self, meter: Meter, choices: int, now_s: float, *, came_whole: bool) -> None:
        """`came_whole`: as one document, whose first token has no time of its own. An answer that
        nobody waited for to its end was longer than what came of it."""
        output, call = meter.output // choices, self._call
        if not output:
            return
        was_cut = not meter.is_complete or meter.finish_reason == "length"
        ceiling = output if was_cut else max(output + 1, call.output_tokens_max // choices)
        learner = self._learner
        learner.answer(_scope(call), output, ceiling)
        if self._pool.is_external:
            learner.prompt(self._pool.model, call.prompt_tokens[self._pool.model], meter)
            learner.cached(self._pool, call, meter)
        if not self._is_watched:
            return
        facts = self._facts(meter)
        if meter.busy_us and not self._pool.is_external:
            learner.busy(facts, meter.output, meter.busy_us / 1e6)
        first_s = meter.first_token_s
        if not came_whole and first_s is not None and choices == 1 and output > 1:
            learner.steps(facts, output, (now_s - first_s) / (output - 1))

    def _watched(self, started_s: float) -> bool:
        self._is_watched = self._learner.watches(target_of(self._pool), started_s)
        return self._is_watched

    def _facts(self, meter: Meter) -> Facts:
        """What of its prompt was cached only the worker knows."""
        pool, usage = self._pool, meter.usage
        prompt_estimate = self._call.likely_prompt_tokens(pool.model)
        prompt = usage.prompt if meter.is_reported else prompt_estimate
        return Facts(target_of(pool), prompt, usage.cached_input, self._load)


class Learner:
    def __init__(
        self,
        work_at: Callable[[str], Work],
        arrivals_of: Callable[[str], Occurrences] = lambda _: NOTHING_COUNTED,
    ) -> None:
        """`work_at` says what gateways have outstanding at a replica, `arrivals_of` how many calls
        of a model came."""
        self._work_at = work_at
        self._arrivals_of = arrivals_of
        self._lines: dict[str, tuple[Pool, Roofline | None]] = {}
        self.predictor = Predictor()
        self.lengths = Lengths()
        self.tokens_of_bytes = TokensOfBytes()
        self.cache_shares = CacheShares()
        self.refused: Counter[str] = Counter()
        self._watched_s: dict[str, float] = {}

    # --- what it says ----------------------------------------------------------------------------

    def learned(self, state: PoolState) -> PoolState:
        """The state with all that was learned of its pool. What is no part of a decision about it
        stays as it is, so that the state does not change for nothing."""
        pool, speeds = state.pool, self._speeds(state)
        if pool.is_external:
            known, unknown = (
                self.cache_shares.known(pool.name),
                self.cache_shares.unknown(pool.name),
            )
            return replace(
                state, learned=speeds, kept_share=round(known, 2), cached_share=round(unknown, 2)
            )
        if state.is_paid_for:
            return state if speeds is None else replace(state, learned=speeds)
        calls = calls_per_start(self._arrivals_of(pool.model), pool.idle_s)
        in_few = max(1.0, in_steps(calls, PRIOR_CALLS_PER_START))
        return replace(state, learned=speeds, calls_per_start=in_few)

    def _speeds(self, state: PoolState) -> Speeds | None:
        """Of the replica with the least before it; None where nothing is known of its kind."""
        pool = state.pool
        self._know(pool)
        return self.predictor.speeds(target_of(pool), self._load(state), pool.max_ongoing)

    def expected(self, call: Call, choices: int, by_bytes: Collection[str]) -> Call:
        """The call with what is expected of it. `by_bytes`: models whose prompts are bound by their
        bytes, and not counted."""
        ceiling = call.output_tokens_max // choices
        each = self.lengths.expected(_scope(call), ceiling) if ceiling else 0.0
        if not by_bytes:
            return call._replace(output_tokens_expected=each * choices)
        bound, expected = call.prompt_tokens, self.tokens_of_bytes.expected
        prompts = {model: expected(model, bound[model]) for model in by_bytes}
        return call._replace(output_tokens_expected=each * choices, prompt_tokens_expected=prompts)

    def _load_at(self, replica: Replica, is_stale: bool) -> Load:
        """What is open there, as far as anybody knows."""
        work = self._work_at(replica.id)
        if not is_stale:
            work = reconciled(replica, work, 0)
        return Load(work.calls, work.context_tokens, work.prefill_tokens)

    def _load(self, state: PoolState) -> Load:
        warm = [each for each in state.replicas if each.state is ReplicaState.WARM]
        return min((self._load_at(each, state.is_stale) for each in warm), default=NO_LOAD)

    def _know(self, pool: Pool) -> None:
        """Its roofline is computed once for each variant, part and count of GPUs."""
        entry = self._lines.get(pool.name)
        if entry is None or _made_of(entry[0]) != _made_of(pool):
            line = line_of(pool)
            self._lines[pool.name] = (pool, line)
            if line is not None:
                self.predictor.learn(target_of(pool), line)

    # --- what it observes ------------------------------------------------------------------------

    def sent_call(
        self, call: Call, pool: Pool, state: PoolState | None, replica_id: str
    ) -> "SentCall":
        """An attempt that is about to be counted. A server outside is not filled by us alone: its
        load is not known."""
        replicas = () if state is None else state.replicas
        there = next((each for each in replicas if each.id == replica_id), None)
        load = NO_LOAD
        if state is not None and there is not None:
            load = self._load_at(there, state.is_stale)
        return SentCall(self, call, pool, load)

    def watches(self, target: str, at_s: float) -> bool:
        """Whether a call that was sent at this time is one that is learned from."""
        record = self.predictor.targets.get(target)
        is_new = record is None or record.first.taken < ALL_OBSERVED
        if is_new or at_s - self._watched_s.get(target, 0.0) >= EVERY_S:
            self._watched_s[target] = at_s
            return True
        return False

    def first_token(self, facts: Facts, ttft_s: float) -> None:
        self._note(self.predictor.observe_first_token(facts, ttft_s))

    def steps(self, facts: Facts, output_tokens: int, tpot_s: float) -> None:
        self._note(self.predictor.observe_steps(facts, output_tokens, tpot_s))

    def busy(self, facts: Facts, output_tokens: int, busy_s: float) -> None:
        self._note(self.predictor.observe_busy(facts, output_tokens, busy_s))

    def answer(self, scope: Scope, output_tokens: int, ceiling: int) -> None:
        self.lengths.observe(scope, output_tokens, ceiling)

    def prompt(self, model: str, bound: int, meter: Meter) -> None:
        """What a server outside says of a prompt whose bytes alone were known."""
        if not meter.is_reported:
            return
        if not self.tokens_of_bytes.observe(model, bound, meter.usage.prompt):
            self.refused[MORE_TOKENS_THAN_BYTES] += 1

    def cached(self, pool: Pool, call: Call, meter: Meter) -> None:
        """What a server outside says of a prompt that it may have had in its cache."""
        if meter.is_reported:
            usage, known = meter.usage, (call.prefix_tokens or {}).get(pool.name, 0)
            self.cache_shares.observe(pool.name, usage.prompt, usage.cached_input, known)

    def _note(self, verdict: Verdict) -> None:
        if verdict is not Verdict.TAKEN:
            self.refused[verdict.value] += 1


def _made_of(pool: Pool) -> tuple[object, ...]:
    return (pool.declared, pool.part, pool.gpus)


def _scope(call: Call) -> Scope:
    return Scope(call.model_requested, call.organization, call.key)
