"""Learned weights as a small JSON document, and back: checked whole before any of it is believed.

Owns the form and its version. Every mistake is named, and nothing is half read.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from routing.quality.features import NUMBERS
from routing.quality.model import LinearModel, QualityModel

FORM = "sluice/quality-v1"
BYTES_MAX = 1_000_000
WORDS_MAX = 5_000
MODELS_MAX = 100


class BadQualityDocument(ValueError):
    """`mistakes` are all that were found."""

    def __init__(self, mistakes: list[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = mistakes


@dataclass(frozen=True, slots=True)
class QualityDocument:
    """`training` has the judged answers' SHA-256, counts and held-out figures: nothing is decided
    by it."""

    model: QualityModel
    training: Mapping[str, Any]


def written(document: QualityDocument) -> str:
    """The same document is the same text, to the byte."""
    model = document.model
    words = sorted(model.places, key=model.places.__getitem__)
    fields = {
        "form": FORM,
        "numbers": list(NUMBERS),
        "words": words,
        "rarities": list(model.rarities),
        "models": {
            name: {
                "average": each.average,
                "intercept": each.intercept,
                "numbers": list(each.numbers),
                "words": list(each.words),
            }
            for name, each in sorted(model.models.items())
        },
        "training": document.training,
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n"


def read(text: str) -> QualityDocument:
    """Raises BadQualityDocument with every mistake."""
    if len(text) > BYTES_MAX:
        raise BadQualityDocument([f"the document has more than {BYTES_MAX} characters"])
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as wrong:
        raise BadQualityDocument([f"it is not JSON: {wrong}"]) from wrong
    if not isinstance(fields, dict):
        raise BadQualityDocument(["it is not an object"])
    if mistakes := _mistakes(fields):
        raise BadQualityDocument(mistakes)
    places = {word: place for place, word in enumerate(fields["words"])}
    models = {name: _linear(each) for name, each in fields["models"].items()}
    model = QualityModel(places, tuple(map(float, fields["rarities"])), models)
    return QualityDocument(model, fields["training"])


def _linear(each: Mapping[str, Any]) -> LinearModel:
    numbers, words = tuple(map(float, each["numbers"])), tuple(map(float, each["words"]))
    return LinearModel(float(each["average"]), float(each["intercept"]), numbers, words)


def _mistakes(fields: Mapping[str, Any]) -> list[str]:
    words, models = fields.get("words"), fields.get("models")
    count = len(words) if isinstance(words, list) else 0
    checks = [
        (fields.get("form") == FORM, f"form: must be {FORM}"),
        (fields.get("numbers") == list(NUMBERS), "numbers: other features than this version has"),
        (_are_words(words), f"words: must be a list of at most {WORDS_MAX} different words"),
        (_are_numbers(fields.get("rarities"), count), "rarities: must be a number for each word"),
        (isinstance(models, dict) and len(models) <= MODELS_MAX, "models: must be an object"),
        (isinstance(fields.get("training"), dict), "training: must be an object"),
    ]
    mistakes = [why for holds, why in checks if not holds]
    if isinstance(models, dict):
        mistakes += [why for name, each in models.items() for why in _of_model(name, each, count)]
    return mistakes


def _of_model(name: str, each: object, words: int) -> list[str]:
    if not isinstance(each, dict):
        return [f"models.{name}: must be an object"]
    kinds: dict[str, Callable[[object], bool]] = {
        "average": _is_number,
        "intercept": _is_number,
        "numbers": lambda value: _are_numbers(value, len(NUMBERS)),
        "words": lambda value: _are_numbers(value, words),
    }
    return [
        f"models.{name}.{field}: missing or not of its kind"
        for field, is_right in kinds.items()
        if not is_right(each.get(field))
    ]


def _are_words(value: object) -> bool:
    if not isinstance(value, list) or len(value) > WORDS_MAX:
        return False
    return all(isinstance(word, str) for word in value) and len(set(value)) == len(value)


def _are_numbers(value: object, count: int) -> bool:
    return isinstance(value, list) and len(value) == count and all(map(_is_number, value))


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isfinite(value) and abs(value) <= 1e6
