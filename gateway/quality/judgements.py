"""Judged answers in a file: which prompt, which model, and how good its answer was.

CSV or JSON lines. Long: a row for each answer, `prompt, model, score`, and `variant` where it is
known. Wide: a row for each prompt, with a column `NAME_score` or `NAME_is_right` for each model or
variant. Scores are from 0 to 1. Other columns are not read, so nothing is learned of what a call
does not say.
"""

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from routing.quality.model import variant_name

SUFFIXES = ("_is_right", "_score")
MISTAKES_MAX = 20
PROMPT_CHARACTERS_MAX = 1_000_000


class BadJudgedAnswers(ValueError):
    """`mistakes` name the row, counted from 1."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


class JudgedPrompt(NamedTuple):
    prompt: str
    scores: Mapping[str, float]
    """By model or variant: the mean of what was judged."""


class JudgedFile(NamedTuple):
    sha256: str
    prompts: tuple[JudgedPrompt, ...]
    models: tuple[str, ...]


def read_judged(file: Path) -> JudgedFile:
    """Raises BadJudgedAnswers with the first mistakes, or OSError."""
    data = file.read_bytes()
    try:
        rows = list(_rows(data.decode("utf-8-sig")))
    except (ValueError, csv.Error) as wrong:
        raise BadJudgedAnswers([str(wrong)]) from wrong
    answers: dict[str, dict[str, list[float]]] = {}
    mistakes: list[str] = []
    for number, row in enumerate(rows, 1):
        try:
            for prompt, model, score in _answers(row):
                answers.setdefault(prompt, {}).setdefault(model, []).append(score)
        except ValueError as wrong:
            mistakes.append(f"row {number}: {wrong}")
    if mistakes:
        raise BadJudgedAnswers(mistakes[:MISTAKES_MAX])
    prompts = tuple([JudgedPrompt(prompt, _means(by)) for prompt, by in answers.items()])
    models = tuple(sorted({model for judged in prompts for model in judged.scores}))
    if not models:
        raise BadJudgedAnswers(["the file has no judged answer"])
    return JudgedFile(hashlib.sha256(data).hexdigest(), prompts, models)


def _rows(text: str) -> Iterator[Mapping[str, Any]]:
    if text.lstrip().startswith("{"):
        for line in text.splitlines():
            if line.strip():
                yield _object(line)
        return
    csv.field_size_limit(PROMPT_CHARACTERS_MAX)
    yield from csv.DictReader(text.splitlines(keepends=True))


def _object(line: str) -> Mapping[str, Any]:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("each line must be a JSON object")
    return row


def _answers(row: Mapping[str, Any]) -> Iterable[tuple[str, str, float]]:
    prompt = row.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise ValueError("'prompt' must be text")
    if "model" in row:
        return [(prompt, _judged_name(row), _score("score", row.get("score")))]
    columns = [(name, s) for name in row if name for s in SUFFIXES if name.endswith(s)]
    if not columns:
        raise ValueError("it has neither 'model' and 'score' nor a column NAME_score")
    return [(prompt, name.removesuffix(end), _score(name, row[name])) for name, end in columns]


def _judged_name(row: Mapping[str, Any]) -> str:
    """Of a variant, where the row names one."""
    model, variant = row["model"], row.get("variant") or None
    if not isinstance(model, str) or not model:
        raise ValueError("'model' must be text")
    if variant is not None and not isinstance(variant, str):
        raise ValueError("'variant' must be text")
    return model if variant is None else variant_name(model, variant)


def _score(name: str, value: object) -> float:
    try:
        score = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        score = -1.0
    if not 0 <= score <= 1:
        raise ValueError(f"'{name}' must be a number from 0 to 1, not {value!r}")
    return score


def _means(scores: Mapping[str, list[float]]) -> dict[str, float]:
    return {model: sum(values) / len(values) for model, values in scores.items()}
