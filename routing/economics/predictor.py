"""`Predictor`: how soon a replica answers, how fast, and what of its time a call takes.

`speeds` gives what `decide` reads of a pool, made once for a state of the fleet from constants that
are kept for each target: a variant on some hardware. `observe_first_token` and `observe_answer`
take what came. Times are of a replica that can begin: a cold start, and waiting for a slot, are
added by whoever asks.

A target whose part has a roofline is bounded by it. Of another (external servers, the CPUs of this
machine) the ceilings are guesses by constant speeds, and all is learned. Bounded: TARGETS_MAX
targets, of which the one used longest ago goes first.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from routing.economics.calibration import Calibration, Ceilings, Learned, Prior, Verdict
from routing.economics.roofline import Roofline
from routing.speeds import (
    GUESS_DECODE_TOKENS_PER_S,
    GUESS_PREFILL_TOKENS_PER_S,
    QUANTILES,
    Speeds,
)

TARGETS_MAX = 1024
FIRST_PRIOR = Prior(overhead_s=0.02, overhead_max_s=0.25, efficiency=0.5)
"""MFU of prompts is 0.4 to 0.6 in the literature; the overhead is scheduling, network and start of
kernels."""
STEP_PRIOR = Prior(overhead_s=0.0015, overhead_max_s=0.025, efficiency=0.7)
"""Steps reach 0.6 to 0.8 of the bandwidth; a step's scheduling and launch take 0.5 to 3 ms."""
BUSY_PRIOR = Prior(overhead_s=0.0, overhead_max_s=1.0, efficiency=0.6, is_bounded=False)
FIRST_GUESS = Prior(overhead_s=0.05, overhead_max_s=5.0, efficiency=1.0, is_bounded=False)
STEP_GUESS = Prior(overhead_s=0.0, overhead_max_s=1.0, efficiency=1.0, is_bounded=False)
BUSY_GUESS = Prior(overhead_s=0.0, overhead_max_s=1.0, efficiency=1.0, is_bounded=False)
USUAL_PROMPT_TOKENS = 512.0
USUAL_WEIGHT = 0.05
"""Of a call in what is usual of its target."""


class Load(NamedTuple):
    """What is open at a replica when a call comes: `batch` sequences that have `context_tokens`
    together, and `ahead_tokens` of prompts that are not computed yet."""

    batch: float = 0
    context_tokens: float = 0
    ahead_tokens: float = 0


NO_LOAD = Load()


class Facts(NamedTuple):
    """A call as it stood when it was sent to a target."""

    target: str
    prompt_tokens: int
    cached_tokens: int = 0
    load: Load = NO_LOAD

    @property
    def fresh_tokens(self) -> int:
        return max(1, self.prompt_tokens - self.cached_tokens)


@dataclass(frozen=True, slots=True)
class TargetLearned:
    """What is kept of a target, for a predictor that starts later."""

    first: Learned
    step: Learned
    busy: Learned
    usual_prompt_tokens: float
    usual_batch: float | None


class TargetFits:
    """Three calibrations of a variant on some hardware: of the time to the first token, over its
    prompt and the step that runs; of a step; and of the replica's own time that a call takes, over
    its prompt and its answer."""

    __slots__ = ("busy", "first", "line", "step", "usual_batch", "usual_prompt_tokens")

    def __init__(self, line: Roofline | None) -> None:
        self.line = line
        self.first = Calibration(FIRST_PRIOR if line else FIRST_GUESS, 2)
        self.step = Calibration(STEP_PRIOR if line else STEP_GUESS)
        self.busy = Calibration(BUSY_PRIOR if line else BUSY_GUESS, 2)
        self.usual_prompt_tokens = USUAL_PROMPT_TOKENS
        self.usual_batch: float | None = None

    def first_ceilings(self, facts: Facts) -> Ceilings:
        """Its prompt after those that wait, and a step of the sequences that run."""
        load = facts.load
        if self.line is None:
            prompt_s = (facts.fresh_tokens + load.ahead_tokens) / GUESS_PREFILL_TOKENS_PER_S
            return prompt_s, load.batch / GUESS_DECODE_TOKENS_PER_S
        prompt_tokens = max(facts.prompt_tokens, facts.fresh_tokens) + load.ahead_tokens
        step_s = self.line.step_s(load.batch, load.context_tokens) if load.batch else 0.0
        return self.line.prefill_s(prompt_tokens, facts.cached_tokens), step_s

    def prefill_s(self, prompt_tokens: float) -> float:
        """Of a prompt alone, without what a call takes beside it."""
        alone = self.first_ceilings(Facts("", round(prompt_tokens)))
        return self.first.predict_s(alone) - self.first.overhead_s

    def step_ceilings(self, batch: float, context_tokens: float) -> Ceilings:
        if self.line is None:
            return (batch / GUESS_DECODE_TOKENS_PER_S,)
        return (self.line.step_s(batch, context_tokens),)

    def busy_ceilings(self, facts: Facts, output_tokens: float) -> Ceilings:
        """Its prompt alone, and its share of the steps."""
        if self.line is None:
            prompt_s = facts.fresh_tokens / GUESS_PREFILL_TOKENS_PER_S
            return prompt_s, output_tokens / GUESS_DECODE_TOKENS_PER_S
        batch = facts.load.batch + 1
        context_tokens = facts.load.context_tokens + facts.prompt_tokens + output_tokens / 2
        prompt_tokens = max(facts.prompt_tokens, facts.fresh_tokens)
        step_s = self.line.step_s(batch, context_tokens) / batch
        return self.line.prefill_s(prompt_tokens, facts.cached_tokens), output_tokens * step_s

    def _meets(self, facts: Facts) -> None:
        """One more call: what is usual follows it slowly."""
        self.usual_prompt_tokens += USUAL_WEIGHT * (facts.fresh_tokens - self.usual_prompt_tokens)
        batch = facts.load.batch + 1
        if self.usual_batch is None:
            self.usual_batch = batch
        self.usual_batch += USUAL_WEIGHT * (batch - self.usual_batch)

    def first_line(self, load: Load) -> tuple[float, float]:
        """Seconds to the first token of an empty prompt, and more for each token of another: the
        line through the times of one token and of the usual prompt."""
        prompt_tokens = max(2, round(self.usual_prompt_tokens))
        one_s, usual_s = (
            self.first.predict_s(self.first_ceilings(Facts("", tokens, 0, load)))
            for tokens in (1, prompt_tokens)
        )
        per_token_s = (usual_s - one_s) / (prompt_tokens - 1)
        return one_s - per_token_s, per_token_s

    def observe_first_token(self, facts: Facts, ttft_s: float) -> Verdict:
        """Beside what the line says, for that is what decisions are made by."""
        fixed_s, per_token_s = self.first_line(facts.load)
        line_s = fixed_s + per_token_s * facts.fresh_tokens
        verdict = self.first.observe(self.first_ceilings(facts), ttft_s, max(line_s, 0.0))
        self._meets(facts)
        return verdict

    def speeds(self, load: Load, max_ongoing: int) -> Speeds:
        first_s, per_token_s = self.first_line(load)
        prompt_tokens = max(2.0, self.usual_prompt_tokens)
        context_tokens = load.context_tokens + prompt_tokens
        step_s = self.step.predict_s(self.step_ceilings(load.batch + 1, context_tokens))
        batch = self.usual_batch or float(max(1, max_ongoing))
        busy = Facts("", round(prompt_tokens), 0, Load(batch - 1, (batch - 1) * prompt_tokens))
        prompt_busy_s, token_busy_s = self._busy_per_token(busy)
        return Speeds(
            first_fixed_s=max(0.0, first_s),
            first_s_per_token=per_token_s,
            step_s=step_s,
            busy_s_per_token=token_busy_s,
            ttft_factors=tuple(map(self.first.factor, QUANTILES)),
            busy_s_per_prompt_token=prompt_busy_s,
            step_s_most=step_s * self.step.factor(QUANTILES[-1]) if self.step.taken else None,
        )

    def _busy_per_token(self, usual: Facts) -> tuple[float, float]:
        """Of the prompt, with what a call takes whatever it has; and of its answer."""
        alone, both = (self.busy.predict_s(self.busy_ceilings(usual, n)) for n in (0.0, 1.0))
        return alone / usual.fresh_tokens, both - alone

    def learned(self) -> TargetLearned:
        return TargetLearned(
            self.first.learned(),
            self.step.learned(),
            self.busy.learned(),
            self.usual_prompt_tokens,
            self.usual_batch,
        )

    def restore(self, learned: TargetLearned) -> None:
        """Raises ValueError for what is of another shape."""
        self.first.restore(learned.first)
        self.step.restore(learned.step)
        self.busy.restore(learned.busy)
        self.usual_prompt_tokens = learned.usual_prompt_tokens
        self.usual_batch = learned.usual_batch


class Predictor:
    """One for a gateway. Not for threads."""

    def __init__(self) -> None:
        self._targets: OrderedDict[str, TargetFits] = OrderedDict()

    def learn(self, target: str, line: Roofline | None = None) -> None:
        """Keep calibrations for this target; one that is known with the same ceilings stays."""
        fits = self._targets.get(target)
        if fits is None or fits.line != line:
            self._targets[target] = TargetFits(line)
        self._targets.move_to_end(target)
        while len(self._targets) > TARGETS_MAX:
            self._targets.popitem(last=False)

    def speeds(self, target: str, load: Load = NO_LOAD, max_ongoing: int = 1) -> Speeds | None:
        """None of a target without a roofline that nothing was observed of."""
        fits = self._targets.get(target)
        if fits is None or (fits.line is None and not fits.first.taken):
            return None
        return fits.speeds(load, max_ongoing)

    def observe_first_token(self, facts: Facts, ttft_s: float) -> Verdict:
        """`facts` as they were when the call was sent."""
        return self._of(facts.target).observe_first_token(facts, ttft_s)

    def observe_steps(self, facts: Facts, output_tokens: int, tpot_s: float) -> Verdict:
        """Seconds for each token of an answer after its first."""
        target = self._of(facts.target)
        context = facts.load.context_tokens + facts.prompt_tokens + output_tokens / 2
        return target.step.observe(target.step_ceilings(facts.load.batch + 1, context), tpot_s)

    def observe_busy(self, facts: Facts, output_tokens: int, busy_s: float) -> Verdict:
        """What the replica says of its own time that the whole call took."""
        target = self._of(facts.target)
        return target.busy.observe(target.busy_ceilings(facts, output_tokens), busy_s)

    @property
    def targets(self) -> Mapping[str, TargetFits]:
        return self._targets

    def restore(self, learned: Mapping[str, TargetLearned]) -> None:
        """What is known already stays. Raises ValueError for what is of another shape."""
        for name, each in learned.items():
            target = self._of(name)
            if not target.first.taken:
                target.restore(each)

    def _of(self, target: str) -> TargetFits:
        if target not in self._targets:
            self.learn(target)
        return self._targets[target]
