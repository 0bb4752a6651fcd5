"""A replica on a GPU that is not there, behind our own thread and streams: its time is the roofline
of a named GPU, its text is made of the words of the model's tokenizer. It needs no weights.

It refuses what only a model's own probabilities can answer: log probabilities, biases, penalties.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from workers.engines.base import (
    CheckpointUnsupported,
    EngineSettings,
    GenerationRequest,
    UnsupportedParameter,
)
from workers.engines.continuous.engine import ContinuousEngine, Loaded
from workers.engines.text import TOKENIZER
from workers.sampling import Sampling

NEUTRAL = Sampling()
UNANSWERABLE = ("logit_bias", "presence_penalty", "frequency_penalty", "repetition_penalty")


class MachineClock:
    """The clock of this machine. Waits end at once when it is halted."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self.now_s = now_s
        self._halted = Event()

    def wait_until_s(self, at_s: float) -> None:
        if (seconds := at_s - self.now_s()) > 0:
            self._halted.wait(seconds)

    def halt(self) -> None:
        self._halted.set()


class SimulatedEngine(ContinuousEngine):
    def __init__(self, settings: EngineSettings) -> None:
        self._clock = MachineClock()
        super().__init__(settings, load=partial(load_simulated, clock=self._clock))

    async def stop(self) -> None:
        self._clock.halt()
        await super().stop()

    def _check(self, request: GenerationRequest) -> None:
        super()._check(request)
        for param in ("logprobs", "prompt_logprobs"):
            if getattr(request, param) is not None:
                raise _unanswerable(param)
        for param in UNANSWERABLE:
            if getattr(request, param) != getattr(NEUTRAL, param):
                raise _unanswerable(param)


def _unanswerable(param: str) -> UnsupportedParameter:
    message = f"'{param}' needs the probabilities of a model, and this one is simulated"
    return UnsupportedParameter(message, param=param)


def load_simulated(settings: EngineSettings, *, clock: MachineClock) -> Loaded:
    from tokenizers import Tokenizer

    from workers.engines.continuous.sequence import RunningSequence
    from workers.engines.continuous.spelling import token_bytes
    from workers.engines.guides import Compiled, Guides
    from workers.engines.simulated.batch import SimulatedBatch
    from workers.engines.simulated.words import Words

    if settings.roofline is None:
        raise CheckpointUnsupported("no GPU is named to simulate")
    tokenizer = Tokenizer.from_file(str(settings.model_path / TOKENIZER))
    vocabulary = tokenizer.get_vocab_size(with_added_tokens=True)
    ends = end_token_ids(settings.model_path, tokenizer.token_to_id)
    raw = token_bytes(tokenizer)
    words = Words(raw, vocabulary=vocabulary, end_token_ids=ends)
    batch = SimulatedBatch(settings.roofline, words, settings, clock=clock)

    def sequence(request: GenerationRequest) -> RunningSequence:
        constraint = request.constraint
        assert constraint is None or isinstance(constraint, Compiled), "made by this engine"
        return RunningSequence(
            request,
            context_tokens=batch.context_tokens,
            eos_token_ids=ends,
            decode=partial(tokenizer.decode, skip_special_tokens=True),
            raw=raw,
            matcher=constraint.matcher() if constraint else None,
        )

    guides = Guides(tokenizer.to_str, vocabulary=vocabulary, eos_token_ids=ends)
    return Loaded(batch, vocabulary, sequence, guides)


def end_token_ids(folder: Path, id_of: Callable[[str], int | None]) -> frozenset[int]:
    """The tokens that end an answer, as the folder's files say it. A folder without any of them has
    none, and its answers end where their room does."""
    for name in ("generation_config.json", "config.json"):
        ends = _read(folder / name).get("eos_token_id")
        if ends is not None:
            return frozenset([ends] if isinstance(ends, int) else ends)
    spelled = _read(folder / "tokenizer_config.json").get("eos_token")
    content = spelled.get("content") if isinstance(spelled, dict) else spelled
    end = id_of(content) if isinstance(content, str) else None
    return frozenset() if end is None else frozenset({end})


def _read(file: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    return read
