"""Learns the weights of `routing/quality` from judged answers: ridge logistic regression.

Newton's steps with Boehning's bound of the curvature (X'X / 4, 1992): one matrix is inverted for
all models and all steps, and no step makes the likelihood worse. Rows are split by a hash of the
prompt, so a prompt is never learned from and judged on. Deterministic. The only file with numpy.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gateway.quality.judgements import JudgedFile
from routing.quality.features import NUMBERS, Features, features_of
from routing.quality.model import LinearModel, QualityModel, log_odds

FOLDS = 5
STEPS = 80
"""The bound is at most some five times the curvature; 80 steps change no figure any more."""
RIDGE = 10.0
WORDS_MAX = 2_000
SEEN_MIN = 25
"""A word in fewer prompts is not learned of."""
NUMBERS_WEIGHT = 0.4
"""How much a standardised number weighs beside a prompt's words, whose length is 1."""
DIGITS = 6

Matrix = NDArray[np.float64]


class Answers(NamedTuple):
    """What was judged: a row for each prompt, a column for each model, NaN where nobody judged."""

    features: tuple[Features, ...]
    scores: Matrix
    folds: NDArray[np.int64]
    models: tuple[str, ...]


def answers_of(judged: JudgedFile) -> Answers:
    scores = [[row.scores.get(m, np.nan) for m in judged.models] for row in judged.prompts]
    return Answers(
        tuple([features_of(row.prompt) for row in judged.prompts]),
        np.array(scores, dtype=float).reshape(len(judged.prompts), len(judged.models)),
        np.array([fold_of(row.prompt) for row in judged.prompts], dtype=np.int64),
        judged.models,
    )


def fold_of(prompt: str) -> int:
    """The same in every process, from 0 to FOLDS - 1."""
    digest = hashlib.sha256(prompt.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") % FOLDS


def fitted(answers: Answers, rows: NDArray[np.bool_]) -> QualityModel:
    """What is learned of these rows alone: words, scales and weights."""
    prompts = [features for features, is_in in zip(answers.features, rows, strict=True) if is_in]
    places, rarities = _vocabulary(prompts)
    blank = QualityModel(places, rarities, {})
    numbers = np.array([features.numbers for features in prompts]).reshape(
        len(prompts), len(NUMBERS)
    )
    means: Matrix = numbers.mean(axis=0)
    scales: Matrix = numbers.std(axis=0)
    scales[scales < 1e-9] = np.inf  # a feature that never changes says nothing
    inputs = np.zeros((len(prompts), 1 + len(NUMBERS) + len(places)))
    inputs[:, 0] = 1
    inputs[:, 1 : 1 + len(NUMBERS)] = (numbers - means) / scales * NUMBERS_WEIGHT
    for row, features in enumerate(prompts):
        vector = blank.vector(features)
        for place in vector.words:
            inputs[row, 1 + len(NUMBERS) + place] = rarities[place] * vector.norm
    inverse = _inverse_bound(inputs)
    models = {}
    for column, name in enumerate(answers.models):
        scores = answers.scores[rows, column]
        weights = _weights(inputs, inverse, scores)
        models[name] = _linear(weights, means, scales, rarities, _average(scores))
    return QualityModel(places, rarities, models)


def _vocabulary(prompts: Sequence[Features]) -> tuple[dict[str, int], tuple[float, ...]]:
    counts = Counter(word for features in prompts for word in features.words)
    usual = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:WORDS_MAX]
    words = sorted(word for word, count in usual if count >= SEEN_MIN)
    places = {word: place for place, word in enumerate(words)}
    return places, tuple([round(float(np.log(len(prompts) / counts[w])), DIGITS) for w in words])


def _inverse_bound(inputs: Matrix) -> Matrix:
    ridge = np.full(inputs.shape[1], RIDGE)
    ridge[0] = 1e-6  # the average is learned whole
    small = inputs.astype(np.float32)
    curvature = (small.T @ small).astype(np.float64) / 4 + np.diag(ridge)
    inverse: Matrix = np.linalg.inv(curvature).astype(np.float64)
    return inverse


def _weights(inputs: Matrix, inverse: Matrix, scores: Matrix) -> Matrix:
    has_score = ~np.isnan(scores)
    scores_or_0 = np.where(has_score, scores, 0.0)
    weights = np.zeros(inputs.shape[1])
    ridge = np.full(inputs.shape[1], RIDGE)
    ridge[0] = 1e-6
    for _ in range(STEPS):
        expected = 1 / (1 + np.exp(-np.clip(inputs @ weights, -30, 30)))
        gradient = inputs.T @ (np.where(has_score, expected, 0.0) - scores_or_0) + ridge * weights
        weights = weights - inverse @ gradient
    return weights


def _average(scores: Matrix) -> float:
    """Log-odds of the mean score, kept off 0 and 1 by half an answer."""
    present = scores[~np.isnan(scores)]
    return log_odds((float(present.sum()) + 0.5) / (len(present) + 1))


def _linear(
    weights: Matrix, means: Matrix, scales: Matrix, rarities: Sequence[float], average: float
) -> LinearModel:
    """The weights of the features as a call has them, neither centred nor scaled."""
    numbers = weights[1 : 1 + len(NUMBERS)] * NUMBERS_WEIGHT / scales
    intercept = float(weights[0] - numbers @ means)
    words = weights[1 + len(NUMBERS) :] * np.array(rarities)
    return LinearModel(
        round(average, DIGITS),
        round(intercept, DIGITS),
        tuple([round(float(w), DIGITS) for w in numbers]),
        tuple([round(float(w), DIGITS) for w in words]),
    )
