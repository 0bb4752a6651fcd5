"""Muon: momentum whose steps are turned into the nearest orthogonal matrix, with AdamW beside it.

After Jordan et al., 2024. A matrix of a layer learns as much from each direction of its gradient,
so it needs fewer steps than with AdamW. Steps are scaled so that both take the same learning rate.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
BETAS = (0.9, 0.98)
EPSILON = 1e-8
TURNS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # raises small singular values fastest; they end near 1
ADAM_RMS = 0.2  # what an entry of an AdamW step comes to


class Muon(torch.optim.Optimizer):  # type: ignore[misc]
    """Groups with `turned` take orthogonal steps, the others take those of AdamW."""

    def __init__(self, groups: Iterable[dict[str, Any]], learning_rate: float) -> None:
        super().__init__(groups, {"lr": learning_rate, "weight_decay": 0.0, "turned": False})

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def step(self) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                change = self._turned if group["turned"] else self._adapted
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(change(parameter), alpha=-group["lr"])

    def _turned(self, parameter: Tensor) -> Tensor:
        state, gradient = self.state[parameter], parameter.grad
        momentum = state.setdefault("momentum", torch.zeros_like(parameter))
        momentum.lerp_(gradient, 1 - MOMENTUM)
        return (
            orthogonal(gradient.lerp(momentum, MOMENTUM)) * ADAM_RMS * max(parameter.shape) ** 0.5
        )

    def _adapted(self, parameter: Tensor) -> Tensor:
        state, gradient = self.state[parameter], parameter.grad
        mean = state.setdefault("mean", torch.zeros_like(parameter))
        square = state.setdefault("square", torch.zeros_like(parameter))
        state["steps"] = state.get("steps", 0) + 1
        mean.lerp_(gradient, 1 - BETAS[0])
        square.lerp_(gradient.square(), 1 - BETAS[1])
        first, second = (1 - beta ** state["steps"] for beta in BETAS)
        return (mean / first) / ((square / second).sqrt() + EPSILON)


def orthogonal(matrix: Tensor) -> Tensor:
    """A matrix near the orthogonal one that is nearest to this one, by Newton and Schulz."""
    is_tall = matrix.shape[0] > matrix.shape[1]
    iterate = matrix.mT if is_tall else matrix
    iterate = iterate / (iterate.norm() + EPSILON)
    a, b, c = QUINTIC
    for _ in range(TURNS):
        square = iterate @ iterate.mT
        iterate = a * iterate + (b * square + c * square @ square) @ iterate
    return iterate.mT if is_tall else iterate
