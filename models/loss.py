"""The one loss of training, held-out measure and record: nats per token the assistant says."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaForCausalLM

from models.batches import IGNORED, Batch


def mean_loss(network: LlamaForCausalLM, batch: Batch) -> Tensor:
    return _losses(network, batch).sum() / _learned(batch)


def mean_loss_over(network: LlamaForCausalLM, batches: list[Batch]) -> float:
    with torch.no_grad():
        total = sum(float(_losses(network, batch).sum()) for batch in batches)
    return total / sum(_learned(batch) for batch in batches)


def _losses(network: LlamaForCausalLM, batch: Batch) -> Tensor:
    """Padding is on the right and causal attention never looks there, so no mask is needed."""
    targets = batch.labels[:, 1:]
    learned = targets != IGNORED
    hidden = network.model(input_ids=batch.ids, use_cache=False).last_hidden_state[:, :-1]
    logits = network.lm_head(hidden[learned]).float()
    return cross_entropy(logits, targets[learned], reduction="none")


def _learned(batch: Batch) -> int:
    return int((batch.labels[:, 1:] != IGNORED).sum())
