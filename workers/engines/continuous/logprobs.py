"""Log probabilities of generated tokens, by the model's own distribution: before temperature and
top_p. They are computed only for the rows that ask, from each row's own logits. So neighbours in a
batch change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workers.engines.base import ScoredToken, TokenLogprobs

Tensor = Any


@dataclass(frozen=True, slots=True)
class Score:
    """A token and the likeliest tokens in its place, as ids with their log probabilities."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()
    rank: int | None = None


def prompt_scores(logits: Tensor, token_ids: Sequence[int], top: int) -> list[Score]:
    """One score for each row of `logits` [tokens, vocabulary] and the token that follows it."""
    if not token_ids:
        return []
    row_scores = scores(logits, token_ids, [top] * len(token_ids))
    chosen = logits.gather(-1, logits.new_tensor([[token] for token in token_ids]).long())
    ranks = (logits > chosen).sum(-1) + 1
    pairs = zip((each for each in row_scores if each is not None), ranks.tolist(), strict=True)
    return [replace(score, rank=rank) for score, rank in pairs]


def scores(
    logits: Tensor, token_ids: Sequence[int], tops: Sequence[int | None]
) -> list[Score | None]:
    """One score for each row of `logits` [rows, vocabulary] whose `tops` is a number. It has that
    many of the likeliest tokens."""
    row_scores: list[Score | None] = [None] * len(tops)
    rows = [row for row, top in enumerate(tops) if top is not None]
    if not rows:
        return row_scores
    counts = [tops[row] or 0 for row in rows]
    logprobs = logits[rows].float().log_softmax(-1)
    chosen = logprobs.gather(-1, logprobs.new_tensor([[token_ids[r]] for r in rows]).long())
    best = logprobs.topk(min(max(counts), logprobs.shape[-1]))
    rows_of_scores = zip(
        chosen[:, 0].tolist(), best.indices.tolist(), best.values.tolist(), strict=True
    )
    for row, top, (logprob, ids, values) in zip(rows, counts, rows_of_scores, strict=True):
        pairs = tuple(zip(ids[:top], values[:top], strict=True))
        row_scores[row] = Score(token_ids[row], logprob, pairs)
    return row_scores


def spelled(score: Score, raw: Callable[[int], bytes]) -> TokenLogprobs:
    top = tuple(_scored(token_id, logprob, raw) for token_id, logprob in score.top)
    return TokenLogprobs(_scored(score.token_id, score.logprob, raw), top, score.rank)


def _scored(token_id: int, logprob: float, raw: Callable[[int], bytes]) -> ScoredToken:
    spelling = raw(token_id)
    return ScoredToken(token_id, spelling.decode(errors="replace"), spelling, logprob)
