"""The step of a continuous batch: admit, prefill a bounded chunk, decode every sequence by one
token. Owns the rows and which sequence has each. Decoding sequences are rows 0..n-1, staged ones
the rows from `slots` on, so each pass is over neighbours. Runs on one thread and knows no thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from workers.engines.base import EngineSettings, EngineStats
from workers.engines.continuous.checkpoint import Checkpoint
from workers.engines.continuous.logprobs import prompt_scores, scores
from workers.engines.continuous.prefix import PrefixIndex
from workers.engines.continuous.runner import RowInput, Runner
from workers.engines.continuous.sampling import next_tokens
from workers.engines.continuous.scheduler import (
    Limits,
    Occupancy,
    admissions,
    next_in_turn,
    prefill_chunks,
)
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.continuous.shaping import shaped
from workers.engines.continuous.slots import KvRows
from workers.engines.sharing import between_us, shares_us


class Batch:
    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: EngineSettings,
        *,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._now_s = now_s
        self._limits = Limits(settings.slots, settings.staging_rows, settings.prefill_tokens_max)
        self.context_tokens = min(settings.context_tokens, checkpoint.context_tokens)
        blocks = settings.cache_tokens_max // settings.block_tokens
        self._prefixes = PrefixIndex(blocks=blocks, block_tokens=settings.block_tokens)
        self._rows = KvRows(
            checkpoint.kv_shape,
            rows=settings.slots + settings.staging_rows,
            context_tokens=self.context_tokens,
            blocks=blocks,
            block_tokens=settings.block_tokens,
        )
        self.runner = Runner(checkpoint.model, self._rows)
        self._waiting: list[RunningSequence] = []
        self._staging: list[RunningSequence] = []
        self._decoding: list[RunningSequence] = []
        self._totals = _Totals()

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._staging or self._decoding)

    def add(self, sequence: RunningSequence) -> None:
        self._totals.requests += 1
        self._waiting.append(sequence)

    def remove(self, sequence: RunningSequence) -> None:
        """Forget a sequence, if it is still here. Its row is free for the next step."""
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        elif sequence in self._staging:
            self._unstage(self._staging.index(sequence))
        elif sequence in self._decoding:
            self._vacate(self._decoding.index(sequence))

    def step(self) -> list[RunningSequence]:
        """Do one step. Returns every sequence that gained a token."""
        begun_s = self._now_s()
        self._admit()
        decoding = self._decoding.copy()
        prefilled, begun_s = self._prefill(begun_s)
        return [*prefilled, *self._decode(decoding, begun_s)]

    def stats(self) -> EngineStats:
        totals = self._totals
        sequences = [*self._staging, *self._decoding]
        return EngineStats(
            running=len(sequences),
            queued=len(self._waiting),
            kv_tokens_used=sum(sequence.computed for sequence in sequences),
            kv_tokens_total=self._limits.slots * self.context_tokens,
            cache_tokens_total=self._prefixes.tokens_max,
            prefill_steps_total=totals.prefill_steps,
            decode_steps_total=totals.decode_steps,
            tokens_prefilled_total=totals.prefilled,
            tokens_cached_total=totals.cached,
            tokens_out_total=totals.out,
            requests_total=totals.requests,
            busy_us_total=totals.busy_us,
        )

    def _admit(self) -> None:
        occupancy = Occupancy(len(self._waiting), len(self._staging), len(self._decoding))
        for _ in range(admissions(occupancy, self._limits)):
            held = Counter(each.call_id for each in (*self._staging, *self._decoding))
            place = next_in_turn([each.call_id for each in self._waiting], held)
            sequence = self._waiting.pop(place)
            blocks = self._known_blocks(sequence)
            self._rows.load_blocks(self._staging_row(len(self._staging)), blocks)
            sequence.cached = sequence.computed = len(blocks) * self._prefixes.block_tokens
            self._totals.cached += sequence.cached
            self._staging.append(sequence)

    def _known_blocks(self, sequence: RunningSequence) -> list[int]:
        if sequence.scores_prompt:  # which takes the logits of every token of it
            return []
        return self._prefixes.match(sequence.request.cache_salt, sequence.tokens)

    def _prefill(self, begun_s: float) -> tuple[list[RunningSequence], float]:
        """Prefill a chunk. Returns the sequences that gained a token, and when this pass ended."""
        staged = list(self._staging)
        chunks = prefill_chunks([s.prompt_remaining for s in staged], self._limits)
        if not chunks:
            return [], begun_s
        inputs = [
            RowInput(s.computed, s.tokens[s.computed : s.computed + chunk])
            for s, chunk in zip(staged, chunks, strict=True)
        ]
        logits = self._prefilled(staged, inputs)
        self._totals.prefill_steps += 1
        self._totals.prefilled += sum(chunks)
        for sequence, chunk in zip(staged, chunks, strict=True):
            sequence.computed += chunk
        done = [row for row, sequence in enumerate(staged) if not sequence.prompt_remaining]
        for row in reversed(done):  # from the end, so that moving the last row disturbs no other
            self._remember(self._staging_row(row), staged[row])
            self._promote(row)
        gained = self._gain([staged[row] for row in done], logits[done]) if done else []
        return gained, self._share(begun_s, staged, chunks)

    def _prefilled(self, staged: list[RunningSequence], inputs: list[RowInput]) -> Any:
        """Logits after the last token of each sequence. Logits between are computed only for a
        sequence that asks for them."""
        first_row = self._staging_row(0)
        if not any(sequence.scores_prompt for sequence in staged):
            return self.runner.forward(first_row, inputs)
        logits = self.runner.forward_everywhere(first_row, inputs)
        for row, (sequence, row_input) in enumerate(zip(staged, inputs, strict=True)):
            if (top := sequence.request.prompt_logprobs) is not None:
                following = sequence.tokens[row_input.start + 1 : row_input.end + 1]
                scored = prompt_scores(logits[row, : len(following)], following, top)
                sequence.score_prompt(scored)
        return logits[range(len(inputs)), [len(row_input.token_ids) - 1 for row_input in inputs]]

    def _decode(self, decoding: list[RunningSequence], begun_s: float) -> list[RunningSequence]:
        """Decode one token of each sequence. A newcomer that was promoted in this step already has
        its token."""
        if not decoding:
            return []
        logits = self.runner.forward(0, [RowInput(s.computed, s.tokens[-1:]) for s in decoding])
        self._totals.decode_steps += 1
        for sequence in decoding:
            sequence.computed += 1
        gained = self._gain(decoding, logits)
        self._share(begun_s, decoding, [1] * len(decoding))
        return gained

    def _share(
        self, begun_s: float, sequences: Sequence[RunningSequence], tokens: Sequence[int]
    ) -> float:
        """Share the time of a pass among the sequences that it computed. Returns when it ended."""
        ended_s = self._now_s()
        elapsed_us = between_us(begun_s, ended_s)
        self._totals.busy_us += elapsed_us
        for sequence, share_us in zip(sequences, shares_us(elapsed_us, tokens), strict=True):
            sequence.busy_us += share_us
        return ended_s

    def _gain(self, sequences: list[RunningSequence], logits: Any) -> list[RunningSequence]:
        tokens = next_tokens(shaped(logits, sequences), [sequence.draw() for sequence in sequences])
        self._totals.out += len(tokens)
        row_scores = scores(logits, tokens, [sequence.request.logprobs for sequence in sequences])
        for sequence, token, score in zip(sequences, tokens, row_scores, strict=True):
            sequence.accept(token, score)
            if sequence.finish_reason is not None:
                row = self._decoding.index(sequence)
                self._remember(row, sequence)
                self._vacate(row)
        return sequences

    def _remember(self, row: int, sequence: RunningSequence) -> None:
        computed = sequence.tokens[: sequence.computed]
        for placement in self._prefixes.insert(sequence.request.cache_salt, computed):
            self._rows.save_block(row, placement.start, placement.block)

    def _promote(self, row: int) -> None:
        sequence = self._staging[row]
        self._rows.move(self._staging_row(row), len(self._decoding), sequence.computed)
        self._decoding.append(sequence)
        self._unstage(row)

    def _unstage(self, row: int) -> None:
        last = self._staging.pop()
        if row < len(self._staging):
            self._rows.move(
                self._staging_row(len(self._staging)), self._staging_row(row), last.computed
            )
            self._staging[row] = last

    def _vacate(self, row: int) -> None:
        last = self._decoding.pop()
        if row < len(self._decoding):
            self._rows.move(len(self._decoding), row, last.computed)
            self._decoding[row] = last

    def _staging_row(self, number: int) -> int:
        return self._limits.slots + number


class _Totals:
    def __init__(self) -> None:
        self.requests = self.prefill_steps = self.decode_steps = 0
        self.prefilled = self.cached = self.out = self.busy_us = 0
