"""Replicas of a model of eight billion parameters on GPUs of the catalogue, in a time that the test
moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tokenizers import Tokenizer

from routing.economics.roofline import Roofline, roofline
from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Precision, shipped
from tests.workers.engines.conftest import MODEL_PATH
from workers.engines.base import EngineSettings, Frame, GenerationRequest
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.continuous.spelling import token_bytes
from workers.engines.simulated.batch import SimulatedBatch
from workers.engines.simulated.words import Words

LLAMA_8B = ModelShape(
    params=8_030_000_000,
    active_params=8_030_000_000,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    context_tokens=8192,
)
H100 = roofline(LLAMA_8B, Precision.FP16, shipped()["h100"])
ENDS = frozenset({0})


def small(capacity_tokens: int) -> Roofline:
    """An H100 with little room beside the weights."""
    return replace(H100, kv_capacity_tokens=capacity_tokens)


class VirtualClock:
    """Moves only where somebody waits."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def now_s(self) -> float:
        return self.at_s

    def wait_until_s(self, at_s: float) -> None:
        self.at_s = max(self.at_s, at_s)


@cache
def tokenizer() -> Any:
    return Tokenizer.from_file(str(MODEL_PATH / "tokenizer.json"))


@cache
def words() -> Words:
    raw = token_bytes(tokenizer())
    return Words(raw, vocabulary=tokenizer().get_vocab_size(), end_token_ids=ENDS)


def request(name: str = "a", prompt_tokens: int = 64, **fields: Any) -> GenerationRequest:
    """A prompt of so many tokens, each name another one."""
    first = sum(name.encode()) % 50
    prompt = tuple(5 + (first + number) % 60 for number in range(prompt_tokens))
    return GenerationRequest(name, prompt, **{"seed": 1, "tokens_max": 16} | fields)


class Card:
    """One replica, stepped by hand."""

    def __init__(self, line: Roofline = H100, **bounds: Any) -> None:
        self.clock = VirtualClock()
        settings = EngineSettings(MODEL_PATH, **{"slots": 64, "context_tokens": 2048} | bounds)
        self.batch = SimulatedBatch(line, words(), settings, clock=self.clock)
        self.frames: dict[str, list[Frame]] = {}
        self.first_s: dict[str, float] = {}
        self.ended_s: dict[str, float] = {}

    def add(self, asked: GenerationRequest) -> RunningSequence:
        sequence = RunningSequence(
            asked,
            context_tokens=self.batch.context_tokens,
            eos_token_ids=ENDS,
            decode=tokenizer().decode,
            raw=token_bytes(tokenizer()),
        )
        self.batch.add(sequence)
        return sequence

    def step(self) -> None:
        for sequence in self.batch.step():
            name = sequence.request.request_id
            self.frames.setdefault(name, []).append(sequence.frame())
            self.first_s.setdefault(name, self.clock.at_s)
            if sequence.finish_reason is not None:
                self.ended_s[name] = self.clock.at_s

    def run(self, *requests: GenerationRequest) -> None:
        for each in requests:
            self.add(each)
        while not self.batch.idle:
            self.step()

    def tokens(self, name: str) -> tuple[int, ...]:
        return tuple(token for frame in self.frames[name] for token in frame.token_ids)

    def text(self, name: str) -> str:
        return "".join(frame.text for frame in self.frames[name])


def alone(asked: GenerationRequest, line: Roofline = H100, **bounds: Any) -> Card:
    card = Card(line, **bounds)
    card.run(asked)
    return card


def in_frames(tokens: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """These tokens as frames of so many each, in turn."""
    frames, at = [], 0
    while at < len(tokens):
        size = sizes[len(frames) % len(sizes)]
        frames.append(tuple(tokens[at : at + size]))
        at += size
    return tuple(frames)
