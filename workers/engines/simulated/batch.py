"""The step of a replica that is not there: as long as the roofline of its GPU says, with as many
sequences as its memory holds. It computes nothing. A prompt takes `prefill_s`, whatever chunks it
comes in, and a token of each running sequence takes `step_s` (routing/economics/roofline.py).

Guards that no more tokens are held than the memory has room for beside the cache of prefixes. A
sequence that has no room any more waits again and is computed anew, as in vLLM: the one that came
last. Runs on one thread and knows no thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from routing.economics.roofline import Roofline
from workers.engines.base import CheckpointUnsupported, EngineSettings, EngineStats
from workers.engines.continuous.prefix import PrefixIndex
from workers.engines.continuous.scheduler import (
    Limits,
    Occupancy,
    admissions,
    next_in_turn,
    prefill_chunks,
)
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.sharing import between_us, shares_us
from workers.engines.simulated.words import Answer, Words

PREFILL_TOKENS_MAX = 2048
"""Of a step: what vLLM's scheduler takes unless told otherwise (`max_num_batched_tokens`)."""


class Clock(Protocol):
    def now_s(self) -> float: ...

    def wait_until_s(self, at_s: float) -> None: ...


class SimulatedBatch:
    """`roofline` says how long everything takes, in seconds of `clock`."""

    def __init__(
        self, roofline: Roofline, words: Words, settings: EngineSettings, *, clock: Clock
    ) -> None:
        self.context_tokens = min(settings.context_tokens, roofline.shape.context_tokens)
        if roofline.kv_capacity_tokens < self.context_tokens:
            raise CheckpointUnsupported(
                f"{roofline.gpus} x {roofline.hardware} keeps {roofline.kv_capacity_tokens} tokens"
                f" beside the weights, and one context has {self.context_tokens}"
            )
        beside = roofline.kv_capacity_tokens - self.context_tokens
        blocks = min(settings.cache_tokens_max, beside) // settings.block_tokens
        self._prefixes = PrefixIndex(blocks=blocks, block_tokens=settings.block_tokens)
        self._kv_tokens = roofline.kv_capacity_tokens - self._prefixes.tokens_max
        self._roofline = roofline
        self._words = words
        self._limits = Limits(settings.slots, settings.staging_rows, PREFILL_TOKENS_MAX)
        self._clock = clock
        self._due_s = clock.now_s()
        self._waiting: list[RunningSequence] = []
        self._held: list[_Held] = []  # in the order in which they got their room
        self._totals = _SimulatedTotals()

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._held)

    def add(self, sequence: RunningSequence) -> None:
        if self.idle:
            self._due_s = self._clock.now_s()
        self._totals.requests += 1
        self._waiting.append(sequence)

    def remove(self, sequence: RunningSequence) -> None:
        """Forget a sequence, if it is still here. Its memory is free for the next step."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        self._held = [held for held in self._held if held.sequence is not sequence]

    def step(self) -> list[RunningSequence]:
        """Do one step. Returns every sequence that gained a token."""
        self._make_room()
        self._admit()
        decoding = [held for held in self._held if not held.remaining]
        return [*self._prefill(), *self._decode(decoding)]

    def stats(self) -> EngineStats:
        totals = self._totals
        return EngineStats(
            running=len(self._held),
            queued=len(self._waiting),
            kv_tokens_used=sum(held.sequence.computed for held in self._held),
            kv_tokens_total=self._kv_tokens,
            cache_tokens_total=self._prefixes.tokens_max,
            prefill_steps_total=totals.prefill_steps,
            decode_steps_total=totals.decode_steps,
            tokens_prefilled_total=totals.prefilled,
            tokens_cached_total=totals.cached,
            tokens_out_total=totals.out,
            requests_total=totals.requests,
            busy_us_total=totals.busy_us,
        )

    @property
    def _room(self) -> int:
        """Tokens that may still be kept. The next step keeps all that its sequences have."""
        used = sum(len(held.sequence.tokens) for held in self._held)
        return self._kv_tokens - used

    def _make_room(self) -> None:
        while self._room < 0:
            sequence = self._held.pop().sequence
            sequence.computed = 0
            self._waiting.insert(0, sequence)

    def _admit(self) -> None:
        staging = sum(1 for held in self._held if held.remaining)
        occupancy = Occupancy(len(self._waiting), staging, len(self._held) - staging)
        for _ in range(admissions(occupancy, self._limits)):
            calls = Counter(held.sequence.call_id for held in self._held)
            place = next_in_turn([each.call_id for each in self._waiting], calls)
            if len(self._waiting[place].tokens) > self._room:
                return  # whoever came later does not pass it
            self._held.append(self._hold(self._waiting.pop(place)))

    def _hold(self, sequence: RunningSequence) -> _Held:
        known = self._prefixes.match(sequence.request.cache_salt, sequence.tokens)
        held = _Held(sequence, self._words.answer(sequence.request))
        held.cached = sequence.computed = len(known) * self._prefixes.block_tokens
        self._totals.cached += held.cached
        if sequence.unbegun:  # what its caller was told already stays
            sequence.cached = held.cached
        return held

    def _remember(self, held: _Held) -> None:
        sequence = held.sequence
        self._prefixes.insert(sequence.request.cache_salt, sequence.tokens[: sequence.computed])

    def _prefill(self) -> list[RunningSequence]:
        staged = [held for held in self._held if held.remaining]
        chunks = prefill_chunks([held.remaining for held in staged], self._limits)
        if not chunks:
            return []
        self._totals.prefill_steps += 1
        self._totals.prefilled += sum(chunks)
        self._pass(sum(map(self._chunk_s, staged, chunks)), staged, chunks)
        for held, chunk in zip(staged, chunks, strict=True):
            held.sequence.computed += chunk
        done = [held for held in staged if not held.remaining]
        for held in done:
            self._remember(held)
        return self._gain(done)

    def _chunk_s(self, held: _Held, chunk: int) -> float:
        """What the prompt takes up to the end of the chunk, less what it took up to its start: the
        chunks of a prompt take together what it takes whole."""
        start, cached = held.sequence.computed, held.cached
        before_s = self._roofline.prefill_s(start, cached) if start > cached else 0.0
        return self._roofline.prefill_s(start + chunk, cached) - before_s

    def _decode(self, decoding: list[_Held]) -> list[RunningSequence]:
        if not decoding:
            return []
        self._totals.decode_steps += 1
        context_tokens = sum(len(held.sequence.tokens) for held in decoding)
        step_s = self._roofline.step_s(len(decoding), context_tokens)
        self._pass(step_s, decoding, [1] * len(decoding))
        for held in decoding:
            held.sequence.computed += 1
        return self._gain(decoding)

    def _pass(self, seconds: float, advanced: Sequence[_Held], tokens: Sequence[int]) -> None:
        """Let the time of a pass go by, and share it. What a machine is late is made up for."""
        begun_s = self._clock.now_s()
        self._due_s += seconds
        self._clock.wait_until_s(self._due_s)
        elapsed_us = between_us(begun_s, self._clock.now_s())
        self._totals.busy_us += elapsed_us
        for held, share_us in zip(advanced, shares_us(elapsed_us, tokens), strict=True):
            held.sequence.busy_us += share_us

    def _gain(self, advanced: list[_Held]) -> list[RunningSequence]:
        self._totals.out += len(advanced)
        for held in advanced:
            held.sequence.accept(self._next(held))
            if held.sequence.finish_reason is not None:
                self._remember(held)
                self._held.remove(held)
        return [held.sequence for held in advanced]

    def _next(self, held: _Held) -> int:
        sequence = held.sequence
        return self._words.token(
            held.answer,
            sequence.output_tokens,
            may_end=not (sequence.request.endless or sequence.too_early),
            matcher=sequence.matcher,
        )


class _Held:
    """A sequence that has room. `remaining` of its tokens are computed before it gains one: all of
    its prompt, and what an answer already has that goes on. Of those the first `cached` ones were
    computed for another."""

    def __init__(self, sequence: RunningSequence, answer: Answer) -> None:
        self.sequence = sequence
        self.answer = answer
        self.cached = 0
        self._opening = len(sequence.tokens)

    @property
    def remaining(self) -> int:
        return max(0, self._opening - self.sequence.computed)


class _SimulatedTotals:
    def __init__(self) -> None:
        self.requests = self.prefill_steps = self.decode_steps = 0
        self.prefilled = self.cached = self.out = self.busy_us = 0
