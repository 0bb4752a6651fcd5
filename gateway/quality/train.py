"""Makes the document of one fit: the weights of all prompts, with what they were learned from."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gateway.quality.fit import FOLDS, Answers, fitted
from gateway.quality.judgements import JudgedFile
from routing.quality.document import QualityDocument, written


def document_of(judged: JudgedFile, answers: Answers, held_out: Mapping[str, Any]) -> str:
    """Held-out figures are of weights that four fifths taught; those written here had all."""
    model = fitted(answers, np.ones(len(answers.features), dtype=bool))
    counts = (~np.isnan(answers.scores)).sum(axis=0).tolist()
    training = {
        "sha256": judged.sha256,
        "prompts": len(judged.prompts),
        "answers": dict(zip(answers.models, counts, strict=True)),
        "folds": FOLDS,
        "held_out": dict(held_out),
    }
    return written(QualityDocument(model, training))
