"""vLLM's engine core as the steps of an engine. vLLM schedules, computes and samples. The sequence
itself decides where an answer ends, and makes its text and its frames, as in our engine. Runs on
one thread and knows no thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from vllm import SamplingParams
from vllm.inputs import tokens_input
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

from workers.engines.base import EngineStats, GenerationRequest
from workers.engines.continuous.logprobs import Score
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.forms import Constraint
from workers.engines.guides import Compiled
from workers.engines.sharing import between_us, shares_us
from workers.engines.vllm.draws import POSITION, SAMPLING, SEED
from workers.sampling import Sampling

# vLLM takes no top_p of 0, which means the likeliest token alone, and warns of each temperature
# below this, which it raises.
TOP_P_MIN = 1e-9
TEMPERATURE_MIN = 0.01


class VllmBatch:
    def __init__(
        self,
        llm: Any,
        *,
        context_tokens: int,
        eos_token_ids: frozenset[int],
        draws: bool = False,
        now_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`llm` is an `LLMEngine` whose core runs in this process. `draws`: tokens are drawn by our
        `draws.py`."""
        self._draws = draws
        self._now_s = now_s
        self.context_tokens = context_tokens
        self._llm = llm
        self._scheduler = llm.engine_core.engine_core.scheduler
        cache = llm.vllm_config.cache_config
        self._kv_tokens_total = cache.num_gpu_blocks * cache.block_size
        self._eos_token_ids = sorted(eos_token_ids)
        self._sequences: dict[str, RunningSequence] = {}
        self._totals = _VllmTotals()

    @property
    def idle(self) -> bool:
        return not self._sequences

    def add(self, sequence: RunningSequence) -> None:
        request = sequence.request
        self._totals.requests += 1
        self._sequences[request.request_id] = sequence
        prompt = tokens_input(list(sequence.tokens), cache_salt=request.cache_salt or None)
        self._llm.add_request(request.request_id, prompt, self._sampling(sequence))

    def remove(self, sequence: RunningSequence) -> None:
        """Forget a sequence, if it is still here; its blocks are free for the next step."""
        request_id = sequence.request.request_id
        if self._sequences.get(request_id) is sequence:
            del self._sequences[request_id]
            self._llm.abort_request([request_id])

    def step(self) -> list[RunningSequence]:
        """Do one step. Returns every sequence that gained a token."""
        begun_s = self._now_s()
        outputs = self._llm.step()
        self._totals.steps += bool(outputs)
        self._share(begun_s, [output.request_id for output in outputs])
        gained = []
        for output in outputs:
            sequence = self._sequences.get(output.request_id)
            if sequence is not None:
                self._accept(sequence, output)
                gained.append(sequence)
        return gained

    def _share(self, begun_s: float, advanced: Sequence[str]) -> None:
        """Share the time of a step. vLLM does not say what it computed of each sequence. So a step
        is shared equally among those it advanced, and a step without a token among all that are
        here."""
        sharing = [self._sequences[each] for each in advanced if each in self._sequences]
        sharing = sharing or list(self._sequences.values())
        if sharing:
            elapsed_us = between_us(begun_s, self._now_s())
            self._totals.busy_us += elapsed_us
            for sequence, share_us in zip(
                sharing, shares_us(elapsed_us, [1] * len(sharing)), strict=True
            ):
                sequence.busy_us += share_us

    def stats(self) -> EngineStats:
        totals = self._totals
        running = len(self._scheduler.running)
        share = self._scheduler.kv_cache_manager.usage
        return EngineStats(
            running=running,
            queued=max(0, len(self._sequences) - running),
            kv_tokens_used=round(share * self._kv_tokens_total),
            kv_tokens_total=self._kv_tokens_total,
            cache_tokens_total=self._kv_tokens_total,
            decode_steps_total=totals.steps,
            tokens_prefilled_total=totals.prefilled,
            tokens_cached_total=totals.cached,
            tokens_out_total=totals.out,
            requests_total=totals.requests,
            busy_us_total=totals.busy_us,
        )

    def _accept(self, sequence: RunningSequence, output: Any) -> None:
        """Accept a token. vLLM and the sequence end an answer by the same tokens and the same
        length. Only the sequence sees a stop string."""
        if sequence.unbegun:
            sequence.cached = output.num_cached_tokens or 0
            self._totals.cached += sequence.cached
            self._totals.prefilled += len(sequence.tokens) - sequence.cached
        answer = output.outputs[0]
        sequence.score_prompt(_prompt_scores(sequence, output.prompt_logprobs))
        rows = answer.logprobs or [None] * len(answer.token_ids)
        for token, row in zip(answer.token_ids, rows, strict=True):
            sequence.accept(token, _score(token, row, sequence.request.logprobs))
            self._totals.out += 1
            if sequence.finish_reason is not None:
                break
        if sequence.finish_reason is None:
            if not output.finished:
                return
            if sequence.request.constraint is None:
                raise RuntimeError(f"vLLM ended an answer by itself: {answer.finish_reason}")
            sequence.cut()  # its form was more work than vLLM does
        del self._sequences[sequence.request.request_id]
        if not output.finished:
            self._llm.abort_request([sequence.request.request_id])

    def _sampling(self, sequence: RunningSequence) -> SamplingParams:
        request, position = sequence.request, sequence.output_tokens
        ends = () if request.endless else self._eos_token_ids
        most = sequence.output_tokens_max - position
        return SamplingParams(
            max_tokens=most,
            min_tokens=min(max(0, request.min_tokens - position), most),
            temperature=request.temperature and max(request.temperature, TEMPERATURE_MIN),
            ignore_eos=True,  # the ends are those of the sequence, named next
            stop_token_ids=[*ends, *request.stop_token_ids],
            logprobs=request.logprobs,
            prompt_logprobs=request.prompt_logprobs if sequence.scores_prompt else None,
            presence_penalty=request.presence_penalty,
            frequency_penalty=request.frequency_penalty,
            repetition_penalty=request.repetition_penalty,
            logit_bias=request.logit_bias or None,
            structured_outputs=_form(request.constraint),
            detokenize=False,  # token ids in, token ids out: text is ours
            output_kind=RequestOutputKind.DELTA,
            **(_own_draws(request, position) if self._draws else _their_draws(request)),
        )


def resumable(request: GenerationRequest, *, draws: bool) -> bool:
    """Whether vLLM goes on behind a prefix exactly. It takes the prefix for a part of the prompt:
    its grammars begin anew there, and its penalties of the answer do not count it. Its own seeded
    draws depend on how many it has made."""
    return request.constraint is None and not request.penal and (draws or not request.temperature)


def _own_draws(request: GenerationRequest, position: int) -> dict[str, Any]:
    """The arguments for `draws.py`, which vLLM copies. `position` is that of the first draw."""
    sampling = {name: getattr(request, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    return {"extra_args": {SAMPLING: Sampling(**sampling), SEED: request.seed, POSITION: position}}


def _their_draws(request: GenerationRequest) -> dict[str, Any]:
    return {
        "top_p": max(request.top_p, TOP_P_MIN),
        "top_k": max(request.top_k, 0),
        "min_p": request.min_p,
        "seed": request.seed,
    }


def _form(constraint: Constraint | None) -> StructuredOutputsParams | None:
    if constraint is None:
        return None
    assert isinstance(constraint, Compiled), "made by this engine"
    return StructuredOutputsParams(grammar=constraint.grammar)


def _score(token: int, row: Any, top: int | None) -> Score | None:
    """vLLM's row of a token: log probabilities and ranks by token id, the token's own included."""
    if top is None or row is None:
        return None
    ranked = sorted(row.items(), key=lambda entry: entry[1].rank)[:top]
    return Score(token, row[token].logprob, tuple((each, of.logprob) for each, of in ranked))


def _prompt_scores(sequence: RunningSequence, rows: Any) -> list[Score]:
    """Scores from vLLM's rows by token of the prompt. The first token has none."""
    top = sequence.request.prompt_logprobs
    if top is None or not rows:
        return []
    tokens = sequence.request.prompt_token_ids[1:]
    scores = []
    for token, row in zip(tokens, rows[1:], strict=True):
        score = _score(token, row, top)
        assert score is not None, "the first token alone has no row"
        scores.append(replace(score, rank=row[token].rank))
    return scores


class _VllmTotals:
    def __init__(self) -> None:
        self.requests = self.steps = self.prefilled = self.cached = self.out = self.busy_us = 0
