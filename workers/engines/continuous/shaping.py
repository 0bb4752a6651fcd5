"""Changes the odds of the next token before it is drawn: by biases, penalties, and the form that
the answer must have. The logits themselves stay the model's own, because log probabilities are
computed from those. A batch in which no sequence asks for a change is not copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from workers.engines.guides import forbidden

if TYPE_CHECKING:
    from workers.engines.continuous.sequence import RunningSequence

Tensor = Any


def shaped(logits: Tensor, sequences: Sequence[RunningSequence]) -> Tensor:
    """`logits` [rows, vocabulary] from which the next tokens are drawn, one row a sequence."""
    asking = [row for row, sequence in enumerate(sequences) if sequence.shapes]
    if not asking:
        return logits
    copy = logits.clone()
    for row in asking:
        _weigh(copy[row], sequences[row])
    _hold_to_forms(copy, sequences)
    return copy


def _weigh(row: Tensor, sequence: RunningSequence) -> None:
    request = sequence.request
    if request.logit_bias:
        _add(row, tuple(request.logit_bias), tuple(request.logit_bias.values()))
    if sequence.too_early:
        ends = [token for token in sequence.end_token_ids if token < len(row)]
        row[ends] = -float("inf")
    if sequence.repeated is not None:
        _divide(row, sequence.repeated, request.repetition_penalty)
    if sequence.counts:
        tokens = tuple(sequence.counts)
        _add(row, tokens, [-_penalty(sequence, token) for token in tokens])


def _hold_to_forms(logits: Tensor, sequences: Sequence[RunningSequence]) -> None:
    """Rule out the tokens that forms do not allow. All rows are done at once, because row by row
    costs a batch more than the masks themselves."""
    pairs = [(row, each.matcher) for row, each in enumerate(sequences) if each.matcher is not None]
    if not pairs:
        return
    rows = [row for row, _ in pairs]
    flags = forbidden([matcher for _, matcher in pairs], logits.shape[-1])
    mask = torch.from_numpy(flags).to(logits.device)
    if len(rows) == len(sequences):
        logits.masked_fill_(mask, -float("inf"))
    else:
        logits[rows] = logits[rows].masked_fill(mask, -float("inf"))


def _penalty(sequence: RunningSequence, token: int) -> float:
    """OpenAI's penalties: one for being there, and one for each time."""
    request = sequence.request
    return request.presence_penalty + sequence.counts[token] * request.frequency_penalty


def _divide(row: Tensor, tokens: Iterable[int], by: float) -> None:
    """The repetition penalty of Keskar et al. 2019, as vLLM computes it: a logit below zero is
    multiplied."""
    places = torch.tensor(sorted(tokens), device=row.device)
    logits = row[places]
    row[places] = torch.where(logits > 0, logits / by, logits * by)


def _add(row: Tensor, tokens: Sequence[int], amounts: Sequence[float]) -> None:
    row.index_add_(0, row.new_tensor(tokens).long(), row.new_tensor(amounts))
