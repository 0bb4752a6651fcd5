"""What holding answers to a form costs: tokens per second of an engine with and without, and what a
schema costs to compile.

Run as `python -m bench.forms [--engine continuous] [--model models/sluice-small] [--tokens 96]
[--rounds 7]`, with vLLM's interpreter for `--engine vllm`. One process, one engine; the ways take
turns within each round, callers start together, and medians count. `by schema` holds to an array
of objects that is longer than the answer, `tools at will` lets text flow until a call begins,
`penalty` is a frequency penalty alone and `bias` one against ending.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from pathlib import Path
from statistics import median
from typing import Any

from msgspec.structs import replace

from bench.engine import CALLERS, Prompt, prompts_of
from workers.engines.base import Engine, EngineSettings, GenerationRequest
from workers.engines.forms import Guide, Schema
from workers.engines.guides import Guides
from workers.engines.registry import engine_named

ITEM = {
    "type": "object",
    "properties": {
        "town": {"type": "string", "maxLength": 20},
        "sky": {"enum": ["clear", "cloudy", "rain"]},
        "degrees": {"type": "integer", "minimum": -40, "maximum": 50},
    },
    "required": ["town", "sky", "degrees"],
    "additionalProperties": False,
}
LONG = Schema("a", json.dumps({"type": "array", "items": ITEM, "minItems": 100}), "here")
TOOL = Schema("weather", json.dumps(ITEM), "here")
WIDE = {
    "type": "object",
    "properties": {f"field_{n}": ITEM for n in range(200)},
    "required": [f"field_{n}" for n in range(200)],
    "additionalProperties": False,
}
NO_END: dict[str, Any] = {"logit_bias": ((2, -100.0),)}
"""A form has no use for what follows an end token, which free text here goes on after."""

Rates = dict[str, dict[int, list[float]]]


async def ways(engine: Engine) -> dict[str, dict[str, Any]]:
    """Changes of a request, by name."""
    return {
        "free": {},
        "by schema": {"constraint": await engine.constrain(Guide(LONG))},
        "penalty": {"frequency_penalty": 0.5},
        "bias": NO_END,
        "tools at will, and that bias": NO_END
        | {"constraint": await engine.constrain(Guide(tools=(TOOL,)))},
    }


async def rate(engine: Engine, prompts: list[Prompt], tokens: int, way: dict[str, Any]) -> float:
    """Tokens per second over all callers."""
    begun_s = time.perf_counter()
    got = await asyncio.gather(
        *(_one(engine, str(n), prompt, tokens, way) for n, prompt in enumerate(prompts))
    )
    return sum(got) / (time.perf_counter() - begun_s)


async def _one(engine: Engine, name: str, prompt: Prompt, tokens: int, way: dict[str, Any]) -> int:
    request = GenerationRequest(
        name, tuple(prompt), seed=0, tokens_max=tokens, temperature=0, ignore_eos=True
    )
    position = 0
    async for frame in engine.generate(replace(request, **way)):
        position = frame.position
    return position


async def measured(options: argparse.Namespace) -> Rates:
    engine = engine_named(
        options.engine, EngineSettings(options.model, slots=max(CALLERS), threads=options.threads)
    )
    await engine.start()
    rng, asked = random.Random(0), await ways(engine)
    for way in asked.values():
        await rate(engine, prompts_of(rng, 8), 8, way)
    rates: Rates = {name: {callers: [] for callers in CALLERS} for name in asked}
    for _ in range(options.rounds):
        for callers in CALLERS:
            prompts = prompts_of(rng, callers)
            for name, way in asked.items():
                rates[name][callers].append(await rate(engine, prompts, options.tokens, way))
    await engine.stop()
    return rates


def compiling(model: Path, rounds: int) -> str:
    from workers.engines.continuous.checkpoint import tokenizer_source

    guides = Guides(lambda: tokenizer_source(model), vocabulary=2048, eos_token_ids=[2])
    small, wide = Guide(LONG), Guide(Schema("wide", json.dumps(WIDE), "here"))
    guides._compile(small)  # reads the tokenizer
    lines = []
    for name, guide in (("one object", small), ("200 objects", wide)):
        spent = []
        for _ in range(rounds):
            begun_s = time.perf_counter()
            guides._compile(guide)
            spent.append(time.perf_counter() - begun_s)
        size = len(guide.answer.text) if guide.answer else 0
        lines.append(f"compile a schema of {name}, {size} bytes: {median(spent) * 1000:.1f} ms")
    return "\n".join(lines)


def table(rates: Rates) -> str:
    lines = ["| way | " + " | ".join(f"tok/s at {callers}" for callers in CALLERS) + " |"]
    lines.append("|---|" + "---|" * len(CALLERS))
    for name, by in rates.items():
        cells = []
        for callers in CALLERS:
            found, free = median(by[callers]), median(rates["free"][callers])
            cells.append(f"{found:.0f} ({found / free:.0%})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="continuous")
    parser.add_argument("--model", type=Path, default=Path("models/sluice-small"))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print(table(asyncio.run(measured(options))))
    print(compiling(options.model, options.rounds))


if __name__ == "__main__":
    main()
