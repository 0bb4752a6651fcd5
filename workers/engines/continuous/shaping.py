"""What changes the odds of the next token before it is drawn: biases, penalties, and the form that
the answer must have. The logits themselves stay the model's own, for log probabilities are of
those; a batch in which nobody asks for anything of it is not even copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from workers.engines.continuous.sequence import RunningSequence

Tensor = Any


def shaped(logits: Tensor, sequences: Sequence[RunningSequence]) -> Tensor:
    """`logits` [rows, vocabulary] as the next tokens are to be drawn from, a row a sequence."""
    asking = [row for row, sequence in enumerate(sequences) if sequence.shapes]
    if not asking:
        return logits
    found = logits.clone()
    for row in asking:
        _shape(found[row], sequences[row])
    return found


def _shape(row: Tensor, sequence: RunningSequence) -> None:
    request = sequence.request
    if request.logit_bias:
        tokens, biases = zip(*request.logit_bias, strict=True)
        _add(row, tokens, biases)
    if sequence.counts:
        tokens = tuple(sequence.counts)
        _add(row, tokens, [-_penalty(sequence, token) for token in tokens])
    if sequence.matcher is not None:
        allowed = sequence.matcher.allowed(row.shape[-1])
        if allowed is not None:
            row.masked_fill_(~torch.from_numpy(allowed).bool().to(row.device), -float("inf"))


def _penalty(sequence: RunningSequence, token: int) -> float:
    """OpenAI's: once for being there, and for each time."""
    request = sequence.request
    return request.presence_penalty + sequence.counts[token] * request.frequency_penalty


def _add(row: Tensor, tokens: Sequence[int], amounts: Sequence[float]) -> None:
    row.index_add_(0, row.new_tensor(tokens).long(), row.new_tensor(amounts))
