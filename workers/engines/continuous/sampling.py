"""Logits to the next token. Every draw is a function of (seed, position, the row's own logits), so
an answer does not depend on what else is in the batch, and a resumed sequence draws what it would
have drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

Tensor = Any
TEMPERATURE_MIN = 1e-4


@dataclass(frozen=True, slots=True)
class Draw:
    """How one row is sampled; `uniform` is its random number in [0, 1)."""

    temperature: float
    top_p: float
    uniform: float

    @property
    def greedy(self) -> bool:
        """The smallest nucleus, of top_p 0, is the likeliest token too."""
        return self.temperature < TEMPERATURE_MIN or self.top_p <= 0


def uniform(seed: int, position: int) -> float:
    """The random number of one position: 53 bits of a hash, so no generator has to be carried
    along."""
    key = seed.to_bytes(16, "little", signed=True) + position.to_bytes(8, "little")
    return (int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 11) * 2.0**-53


def next_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token for each row of `logits` [rows, vocabulary]."""
    tokens: list[int] = logits.argmax(-1).tolist()
    _redraw(
        tokens,
        logits,
        draws,
        [i for i, d in enumerate(draws) if not d.greedy and d.top_p >= 1],
        _inverse,
    )
    _redraw(
        tokens,
        logits,
        draws,
        [i for i, d in enumerate(draws) if not d.greedy and d.top_p < 1],
        _nucleus,
    )
    return tokens


def _redraw(
    tokens: list[int],
    logits: Tensor,
    draws: Sequence[Draw],
    rows: list[int],
    choose: Callable[[Tensor, list[Draw]], list[int]],
) -> None:
    if not rows:
        return
    chosen = [draws[row] for row in rows]
    temperatures = logits.new_tensor([draw.temperature for draw in chosen])
    probabilities = (logits[rows] / temperatures[:, None]).double().softmax(-1)
    for row, token in zip(rows, choose(probabilities, chosen), strict=True):
        tokens[row] = token


def _inverse(probabilities: Tensor, draws: list[Draw]) -> list[int]:
    """Inverse of the cumulative distribution, in vocabulary order."""
    cumulative = probabilities.cumsum(-1)
    targets = cumulative.new_tensor([[draw.uniform] for draw in draws]) * cumulative[:, -1:]
    index = (cumulative <= targets).sum(-1).clamp(max=probabilities.shape[-1] - 1)
    return list(index.tolist())


def _nucleus(probabilities: Tensor, draws: list[Draw]) -> list[int]:
    """Holtzman et al. 2020: the smallest set of likeliest tokens whose probability reaches
    top_p."""
    ordered, order = probabilities.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    ordered = ordered.masked_fill(before >= before.new_tensor([[draw.top_p] for draw in draws]), 0)
    picked = order.new_tensor(_inverse(ordered, draws))
    return list(order.gather(-1, picked[:, None])[:, 0].tolist())
