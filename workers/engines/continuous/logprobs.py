"""Log probabilities of gained tokens, by the model's own distribution: before temperature and
top_p. Computed for the rows that asked and for no other, from each row's own logits, so neighbours
in a batch change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workers.engines.base import ScoredToken, TokenLogprobs

Tensor = Any


@dataclass(frozen=True, slots=True)
class Score:
    """A token and the likeliest in its place, as ids with their log probabilities."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def scores(
    logits: Tensor, token_ids: Sequence[int], tops: Sequence[int | None]
) -> list[Score | None]:
    """One for each row of `logits` [rows, vocabulary] whose `tops` is a number: that many of the
    likeliest tokens."""
    found: list[Score | None] = [None] * len(tops)
    rows = [row for row, top in enumerate(tops) if top is not None]
    if not rows:
        return found
    wanted = [tops[row] or 0 for row in rows]
    logprobs = logits[rows].float().log_softmax(-1)
    chosen = logprobs.gather(-1, logprobs.new_tensor([[token_ids[r]] for r in rows]).long())
    best = logprobs.topk(min(max(wanted), logprobs.shape[-1]))
    listed = zip(chosen[:, 0].tolist(), best.indices.tolist(), best.values.tolist(), strict=True)
    for row, top, (logprob, ids, values) in zip(rows, wanted, listed, strict=True):
        pairs = tuple(zip(ids[:top], values[:top], strict=True))
        found[row] = Score(token_ids[row], logprob, pairs)
    return found


def spelled(score: Score, raw: Callable[[int], bytes]) -> TokenLogprobs:
    top = tuple(_scored(token_id, logprob, raw) for token_id, logprob in score.top)
    return TokenLogprobs(_scored(score.token_id, score.logprob, raw), top)


def _scored(token_id: int, logprob: float, raw: Callable[[int], bytes]) -> ScoredToken:
    spelling = raw(token_id)
    return ScoredToken(token_id, spelling.decode(errors="replace"), spelling, logprob)
