"""What it takes to look at a prompt: features, and the expected quality of eight models.

Run as `python -m bench.quality [--document quality.json]`. The prompts are made of one question,
repeated. Processor time, the best of 100 rounds of 50: what else runs is not counted. The held-out
curve is printed by `sluice quality fit FILE`.
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

from routing.quality.document import read
from routing.quality.features import Features, features_of
from routing.quality.model import QualityModel, expected_quality

QUESTION = (
    "A ball of 0.2 kg falls from 5 m onto the ground and rises to 3.2 m again. Which of these is"
    " not the change of its momentum, if g = 10 m/s^2?\nA. 3.6 kg m/s\nB. 0.4 kg m/s\n"
    "C. 2.0 kg m/s\nD. none of these\n"
)
TIMES, REPEATS = 50, 100


def microseconds(work: Callable[[], object]) -> float:
    best_s = min(timeit.repeat(work, timer=process_time, number=TIMES, repeat=REPEATS))
    return round(best_s / TIMES * 1e6, 1)


def score(model: QualityModel, features: Features) -> None:
    linear, seen = next(iter(model.models.values())), model.vector(features)
    for _ in range(8):
        expected_quality(0.7, linear, seen)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--document", type=Path)
    given = asked.parse_args()
    model = read(given.document.read_text()).model if given.document else None
    for characters in (300, 1_000, 10_000, 1_000_000):
        prompt = (QUESTION * (characters // len(QUESTION) + 1))[:characters]
        said = {"characters": characters, "features_us": microseconds(partial(features_of, prompt))}
        if model is not None:
            said["eight_models_us"] = microseconds(partial(score, model, features_of(prompt)))
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
