"""What changes the odds of the next token before it is drawn: biases, penalties, and the form that
the answer must have. The logits themselves stay the model's own, for log probabilities are of
those; a batch in which nobody asks for anything of it is not even copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from workers.engines.guides import forbidden

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
        _weigh(found[row], sequences[row])
    _hold_to_forms(found, sequences)
    return found


def _weigh(row: Tensor, sequence: RunningSequence) -> None:
    request = sequence.request
    if request.logit_bias:
        tokens, biases = zip(*request.logit_bias, strict=True)
        _add(row, tokens, biases)
    if sequence.counts:
        tokens = tuple(sequence.counts)
        _add(row, tokens, [-_penalty(sequence, token) for token in tokens])


def _hold_to_forms(logits: Tensor, sequences: Sequence[RunningSequence]) -> None:
    """All rows at once: what is done row by row costs a batch more than the masks themselves."""
    held = [(row, each.matcher) for row, each in enumerate(sequences) if each.matcher is not None]
    if not held:
        return
    rows = [row for row, _ in held]
    flags = forbidden([matcher for _, matcher in held], logits.shape[-1])
    mask = torch.from_numpy(flags).to(logits.device)
    if len(rows) == len(sequences):
        logits.masked_fill_(mask, -float("inf"))
    else:
        logits[rows] = logits[rows].masked_fill(mask, -float("inf"))


def _penalty(sequence: RunningSequence, token: int) -> float:
    """OpenAI's: once for being there, and for each time."""
    request = sequence.request
    return request.presence_penalty + sequence.counts[token] * request.frequency_penalty


def _add(row: Tensor, tokens: Sequence[int], amounts: Sequence[float]) -> None:
    row.index_add_(0, row.new_tensor(tokens).long(), row.new_tensor(amounts))
