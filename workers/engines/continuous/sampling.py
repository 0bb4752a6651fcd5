"""Logits to the next token. Every draw is a function of (seed, position, the row's own logits). So
an answer does not depend on the rest of the batch, and a resumed sequence draws what it would have
drawn. Rows are drawn together. vLLM's engine on a CPU draws by this file too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import torch

from workers.sampling import Sampling

Tensor = Any
TEMPERATURE_MIN = 1e-4


class Draw(NamedTuple):
    """How one row is sampled; `uniform` is its random number in [0, 1)."""

    temperature: float
    top_p: float
    uniform: float
    top_k: int = 0
    min_p: float = 0.0

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken. The smallest nucleus, of top_p 0, is that token
        too."""
        return self.temperature < TEMPERATURE_MIN or self.top_p <= 0

    @property
    def narrow(self) -> bool:
        """Whether some tokens are ruled out."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


def drawn(sampling: Sampling, seed: int, position: int) -> Draw:
    """The draw for the token at `position` of an answer."""
    chance = uniform(seed, position)
    return Draw(sampling.temperature, sampling.top_p, chance, sampling.top_k, sampling.min_p)


def uniform(seed: int, position: int) -> float:
    """The random number of one position: 53 bits of a hash. So no state of a generator is
    needed."""
    key = seed.to_bytes(16, "little", signed=True) + position.to_bytes(8, "little")
    return (int.from_bytes(blake2b(key, digest_size=8).digest(), "little") >> 11) * 2.0**-53


def next_tokens(logits: Tensor, draws: Sequence[Draw]) -> list[int]:
    """One token for each row of `logits` [rows, vocabulary]."""
    tokens: list[int] = logits.argmax(-1).tolist()
    chance = [(row, draw) for row, draw in enumerate(draws) if not draw.greedy]
    _redraw(tokens, logits, [pair for pair in chance if not pair[1].narrow], _inverse)
    _redraw(tokens, logits, [pair for pair in chance if pair[1].narrow], _narrowed)
    return tokens


def _redraw(
    tokens: list[int],
    logits: Tensor,
    pairs: Sequence[tuple[int, Draw]],
    choose: Callable[[Tensor, list[Draw]], list[int]],
) -> None:
    if not pairs:
        return
    rows, draws = [row for row, _ in pairs], [draw for _, draw in pairs]
    temperatures = logits.new_tensor([draw.temperature for draw in draws])
    probabilities = (logits[rows] / temperatures[:, None]).double().softmax(-1)
    for row, token in zip(rows, choose(probabilities, draws), strict=True):
        tokens[row] = token


def _inverse(probabilities: Tensor, draws: Sequence[Draw]) -> list[int]:
    """Inverse of the cumulative distribution, in vocabulary order."""
    cumulative = probabilities.cumsum(-1)
    targets = cumulative.new_tensor([[draw.uniform] for draw in draws]) * cumulative[:, -1:]
    index = (cumulative <= targets).sum(-1).clamp(max=probabilities.shape[-1] - 1)
    return list(index.tolist())


def _narrowed(probabilities: Tensor, draws: list[Draw]) -> list[int]:
    """Draw from tokens that are likely enough: by min_p, by top_k, and by the top_p of the rest.
    Tokens that are equally likely stay or go together."""
    likely = probabilities.masked_fill(probabilities < _least(probabilities, draws), 0)
    return _inverse(likely, draws)


def _least(probabilities: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The least probability that a token must have, for each row. numpy sorts here, because it is
    ten times as fast at it as torch."""
    ordered = torch.from_numpy(np.sort(probabilities.numpy(), axis=-1)[:, ::-1].copy())
    size = ordered.shape[-1]
    counts = [[min(draw.top_k, size) if draw.top_k > 0 else size] for draw in draws]
    kth = ordered.gather(-1, ordered.new_tensor(counts).long() - 1)
    share = ordered.new_tensor([[draw.min_p] for draw in draws]) * ordered[:, :1]
    least = kth.maximum(share)
    return least.maximum(_nucleus(ordered.masked_fill(ordered < least, 0), draws))


def _nucleus(ordered: Tensor, draws: Sequence[Draw]) -> Tensor:
    """The probability of the last token in the nucleus (Holtzman et al. 2020). The nucleus is the
    smallest set of likeliest tokens whose probability reaches top_p of what is left of the row."""
    reached = ordered.cumsum(-1)
    mass = ordered.new_tensor([[draw.top_p] for draw in draws]) * reached[:, -1:]
    last = (reached < mass).sum(-1, keepdim=True).clamp(max=ordered.shape[-1] - 1)
    return ordered.gather(-1, last)
