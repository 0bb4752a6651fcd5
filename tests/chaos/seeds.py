"""Seeds of chaos: one that never changes, every one that failed once, and in long runs fresh ones.

`failing_seeds.txt` holds lines of a test's name and a seed; a test that fails adds its own there,
to be committed with what mends it, and runs with it ever after. A short run takes one seed: the
last one that failed, or else the one that never changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

CORPUS = Path(__file__).with_name("failing_seeds.txt")
ALWAYS = (20_261_121,)
FRESH = int(os.environ.get("CHAOS_SEEDS", "2"))
"""How many fresh ones a long run takes."""


def of(test: str) -> list[object]:
    """What a test is to be run with. All workers of one run have the same fresh seeds."""
    known = dict.fromkeys((*ALWAYS, *(seed for name, seed in _corpus() if name == test)))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
    rng = Random(f"{run} {test}")
    *others, last = known
    fresh = [rng.randrange(10**9) for _ in range(FRESH)]
    return [last, *(pytest.param(seed, marks=pytest.mark.long) for seed in (*others, *fresh))]


def keep_failed(item: pytest.Item) -> None:
    seed = getattr(item, "callspec", None) and item.callspec.params.get("seed")  # type: ignore[attr-defined]
    name = getattr(item, "originalname", item.name)
    if seed is None or seed in ALWAYS or (name, seed) in _corpus():
        return
    with CORPUS.open("a") as corpus:
        corpus.write(f"{name} {seed}\n")


def _corpus() -> list[tuple[str, int]]:
    lines = CORPUS.read_text().splitlines() if CORPUS.exists() else []
    words = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    return [(name, int(seed)) for name, seed in words]
