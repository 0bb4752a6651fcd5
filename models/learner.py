"""A network with its optimiser and progress. It takes steps, and can be saved and resumed."""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

from models.batches import Batch
from models.loss import mean_loss
from models.muon import Muon

WARMUP_SHARE = 0.03
LEARNING_RATE_FLOOR = 0.02
GRADIENT_NORM_MAX = 1.0


@dataclass(slots=True)
class Learner:
    network: LlamaForCausalLM
    optimiser: torch.optim.Optimizer
    step: int = 0
    tokens: int = 0
    spent_s: float = 0.0

    def learn(self, batch: Batch, rate: float) -> float:
        """One step of gradient descent; returns the loss before it."""
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = mean_loss(self.network, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), GRADIENT_NORM_MAX)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens += batch.ids.numel()
        return float(loss.detach())

    def save(self, path: Path) -> None:
        fresh = path.with_suffix(".fresh")
        progress = {"step": self.step, "tokens": self.tokens, "spent_s": self.spent_s}
        weights = {
            "network": self.network.state_dict(),
            "optimiser": self.optimiser.state_dict(),
        }
        torch.save(progress | weights, fresh)
        fresh.rename(path)

    def load(self, path: Path) -> None:
        state = torch.load(path)
        self.network.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.step, self.tokens, self.spent_s = state["step"], state["tokens"], state["spent_s"]


def start_learner(network: LlamaForCausalLM, learning_rate: float) -> Learner:
    """Muon for the matrices of the layers, AdamW for the words and the norms."""
    words = network.model.embed_tokens.weight
    matrices = [p for p in network.parameters() if p.ndim > 1 and p is not words]
    vectors = [p for p in network.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": 0.05, "turned": True},
        {"params": [words], "weight_decay": 0.05, "turned": False},
        {"params": vectors, "weight_decay": 0.0, "turned": False},
    ]
    return Learner(network, Muon(groups, learning_rate))


def schedule(progress: float) -> float:
    """Linear warm-up, then a cosine down to the floor; `progress` runs from 0 to 1."""
    if progress < WARMUP_SHARE:
        return max(progress / WARMUP_SHARE, 0.01)
    falling = (progress - WARMUP_SHARE) / (1 - WARMUP_SHARE)
    cosine = 0.5 * (1 + math.cos(math.pi * falling))
    return LEARNING_RATE_FLOOR + (1 - LEARNING_RATE_FLOOR) * cosine
