"""How good learned weights are on prompts that they were not learned from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gateway.quality.fit import FOLDS, Answers, fitted
from routing.quality.curve import JudgedCall, curve, share_by_chance, share_needed
from routing.quality.features import Features
from routing.quality.model import QualityModel, expected_quality, sigmoid

OF_STRONG = 0.95
BINS = 10
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def expected_by(model: QualityModel, features: Features) -> dict[str, float]:
    """Where the table is the mean of the judged answers."""
    vector = model.vector(features)
    return {
        name: expected_quality(sigmoid(each.average), each, vector)
        for name, each in model.models.items()
    }


def held_out(answers: Answers, progress: Callable[[int], None]) -> tuple[Mapping[str, float], ...]:
    """For each prompt each model's expected quality, by weights that other folds taught."""
    expected: list[Mapping[str, float]] = [{} for _ in answers.features]
    for fold in range(FOLDS):
        progress(fold + 1)
        inside = answers.folds == fold
        if not inside.any() or inside.all():
            continue
        model = fitted(answers, ~inside)
        for row in np.flatnonzero(inside):
            expected[row] = expected_by(model, answers.features[row])
    return tuple(expected)


def judged_calls(
    answers: Answers, expected: Sequence[Mapping[str, float]], cheap: str, strong: str
) -> list[JudgedCall]:
    """Prompts on which both were judged."""
    places = [answers.models.index(name) for name in (cheap, strong)]
    calls = []
    for scores, of in zip(answers.scores[:, places].tolist(), expected, strict=True):
        if not np.isnan(scores).any() and cheap in of and strong in of:
            calls.append(JudgedCall(of[strong] - of[cheap], scores[0], scores[1]))
    return calls


def figures(
    answers: Answers, expected: Sequence[Mapping[str, float]], cheap: str, strong: str
) -> dict[str, Any]:
    """What is said of held-out prompts: the curve, and how far expected qualities are off."""
    calls = judged_calls(answers, expected, cheap, strong)
    fields: dict[str, Any] = {
        "cheap": cheap,
        "strong": strong,
        "prompts": len(calls),
        "of_strong": OF_STRONG,
        "share_needed": round(share_needed(calls, OF_STRONG), 4),
        "share_by_chance": round(share_by_chance(calls, OF_STRONG), 4),
        "calibration_error": {
            name: round(_calibration_error(answers, expected, name), 4) for name in (cheap, strong)
        },
    }
    points = curve(calls)
    at = [points[round(share * (len(points) - 1))] for share in SHARES]
    fields["curve"] = [[round(p.share, 4), round(p.score, 4)] for p in at]
    return fields


def cheap_and_strong(answers: Answers) -> tuple[str, str] | None:
    """The models with the lowest and the highest mean score; None if there is only one."""
    means = np.nanmean(answers.scores, axis=0)
    order = np.argsort(means, kind="stable")
    if len(order) < 2:
        return None
    return answers.models[order[0]], answers.models[order[-1]]


def _calibration_error(
    answers: Answers, expected: Sequence[Mapping[str, float]], name: str
) -> float:
    """Mean distance of expected from judged quality over ten bins of equal count."""
    column = answers.scores[:, answers.models.index(name)]
    pairs = [(of[name], s) for of, s in zip(expected, column, strict=True) if s == s and name in of]
    bins = np.array_split(np.array(sorted(pairs)).reshape(len(pairs), 2), BINS)
    off = [abs(float(b[:, 0].mean() - b[:, 1].mean())) * len(b) for b in bins if len(b)]
    return sum(off) / max(1, len(pairs))
