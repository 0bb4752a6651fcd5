"""The learned part of a model's expected quality: a linear model over features of the prompt.

The table of validated qualities says how good a variant is on average. The linear model says how
much better or worse it is on this prompt, in log-odds around its own average. Pure. Laws: a score
is in [0, 1]; a model that nothing was learned of keeps the table's.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Final, NamedTuple

from routing.quality.features import Features, features_of

OF_VARIANT: Final = "/"
"""Stands in no name of a model."""
LOG_ODDS_MAX = 30.0
"""Beyond it a score is 0 or 1 to thirteen digits."""


class PromptVector(NamedTuple):
    """The features of a prompt as all models of one document read them, made once a call.
    `norm` makes the words of long and short prompts weigh alike."""

    numbers: tuple[float, ...]
    words: tuple[int, ...]
    norm: float


@dataclass(frozen=True, slots=True)
class LinearModel:
    """What was learned of one model. `average` is the log-odds of its mean score on the judged
    answers; `numbers` and `words` are weights in the order of the document's features."""

    average: float
    intercept: float
    numbers: tuple[float, ...]
    words: tuple[float, ...]

    def deviation(self, vector: PromptVector) -> float:
        """Log-odds of this prompt above those of the average one."""
        weights = self.words
        by_words = sum([weights[place] for place in vector.words]) * vector.norm
        by_numbers = sum([w * x for w, x in zip(self.numbers, vector.numbers, strict=True)])
        return self.intercept + by_numbers + by_words - self.average


@dataclass(frozen=True, slots=True)
class QualityModel:
    """All that one fit learned, by model or `variant_name`. `places` and `rarities` are of its
    words: what a word weighs before anything is learned of it (log of documents by documents with
    it)."""

    places: Mapping[str, int]
    rarities: tuple[float, ...]
    models: Mapping[str, LinearModel]

    def names(self, models: Collection[str]) -> list[str]:
        """What was judged of these models: themselves, and variants of theirs."""
        return [name for name in self.models if name.partition(OF_VARIANT)[0] in models]

    def deviations(self, prompt: str, names: Iterable[str]) -> dict[str, float]:
        """By model or variant, how much better this prompt suits it than the average one, in
        log-odds. What nothing was learned of is not in it."""
        present = [name for name in names if name in self.models]
        if not present:
            return {}
        vector = self.vector(features_of(prompt))
        return {name: self.models[name].deviation(vector) for name in present}

    def vector(self, features: Features) -> PromptVector:
        """Places in order, so that sums do not depend on how a set is laid out in memory."""
        places = self.places
        present = sorted([places[word] for word in features.words if word in places])
        rarities = self.rarities
        length = sqrt(sum([rarities[place] ** 2 for place in present]))
        return PromptVector(features.numbers, tuple(present), 1 / length if length else 0.0)


def variant_name(model: str, variant: str) -> str:
    """As judged answers and the catalogue call a variant."""
    return f"{model}{OF_VARIANT}{variant}"


def expected_quality(table: float, model: LinearModel | None, vector: PromptVector | None) -> float:
    """The quality expected of this call: the table's, refined where something was learned."""
    if model is None or vector is None:
        return table
    return refined(table, model.deviation(vector))


def refined(table: float, deviation: float) -> float:
    """A quality of the table, moved by the log-odds of a prompt. 0 and 1 stay: nobody knows how far
    such a model is from being any better or worse."""
    if not 0 < table < 1:
        return table
    return sigmoid(log_odds(table) + deviation)


def sigmoid(odds: float) -> float:
    if -LOG_ODDS_MAX < odds < LOG_ODDS_MAX:
        return 1 / (1 + exp(-odds))
    return 1 / (1 + exp(-LOG_ODDS_MAX if odds > 0 else LOG_ODDS_MAX))


def log_odds(share: float) -> float:
    """Of a share strictly between 0 and 1."""
    return log(share / (1 - share))
