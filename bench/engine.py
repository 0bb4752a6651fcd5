"""Tokens per second of CPU engines in process, side by side: ours, transformers' static-batch
`generate`, and its continuous-batching manager; time to first token with and without a shared
prefix; memory.

Run as `python -m bench.engine [--model models/sluice-small] [--tokens 96] [--rounds 5]`. Every
engine runs in a process of its own with the same number of threads, greedy, on the same prompts, to
the full number of tokens. Callers start together and their streams are read as they come. The best
round counts, for what disturbs the others is the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

CALLERS = (1, 8, 32)
PROMPT_TOKENS = 40
PREFIX_TOKENS = 512
SUFFIX_TOKENS = 16
VOCABULARY = range(10, 1000)

Prompt = list[int]


@dataclass
class Figures:
    """The least disturbed round of one engine."""

    start_s: float = 0.0
    tokens_per_s: dict[str, float] = field(default_factory=dict)
    tokens_per_cpu_s: dict[str, float] = field(default_factory=dict)
    ttft_new_ms: float = 0.0
    ttft_shared_ms: float = 0.0
    memory_mb: float = 0.0


class Subject(Protocol):
    async def start(self, model_path: Path, threads: int) -> None: ...

    async def answer(self, prompts: list[Prompt], tokens: int) -> float:
        """Generate exactly `tokens` for each prompt; returns seconds to the first token."""
        ...

    async def stop(self) -> None: ...


class Ours:
    async def start(self, model_path: Path, threads: int) -> None:
        from workers.engines.base import EngineSettings
        from workers.engines.registry import engine_named

        settings = EngineSettings(model_path, slots=max(CALLERS), threads=threads)
        self.engine = engine_named("continuous", settings)
        await self.engine.start()

    async def answer(self, prompts: list[Prompt], tokens: int) -> float:
        firsts = await asyncio.gather(
            *(self._one(str(n), prompt, tokens) for n, prompt in enumerate(prompts))
        )
        return min(firsts)

    async def _one(self, name: str, prompt: Prompt, tokens: int) -> float:
        from workers.engines.base import GenerationRequest

        started = time.perf_counter()
        first_s = None
        request = GenerationRequest(
            name, tuple(prompt), seed=0, tokens_max=tokens, temperature=0, ignore_eos=True
        )
        async for frame in self.engine.generate(request):
            first_s = first_s or time.perf_counter() - started
            position = frame.position
        assert first_s is not None
        assert position == tokens
        return first_s

    async def stop(self) -> None:
        await self.engine.stop()


class Static:
    """All prompts of a round as one batch of one length: the least that `generate` has to do."""

    async def start(self, model_path: Path, threads: int) -> None:
        self.model = load(model_path, threads)

    async def answer(self, prompts: list[Prompt], tokens: int) -> float:
        import torch

        started = time.perf_counter()
        ids = torch.tensor(prompts)
        mask = torch.ones_like(ids)
        fixed = {"do_sample": False, "eos_token_id": None, "pad_token_id": 0}
        self.model.generate(ids, attention_mask=mask, max_new_tokens=tokens, **fixed)
        return time.perf_counter() - started  # nothing comes before everything is done

    async def stop(self) -> None: ...


class Manager:
    async def start(self, model_path: Path, threads: int) -> None:
        from transformers import ContinuousBatchingConfig

        self.model = load(model_path, threads)
        self.model.generation_config.eos_token_id = -1
        self.model.generation_config.do_sample = False
        # Its own choice of memory is 90 % of the machine's: bound it to what ours may hold.
        config = ContinuousBatchingConfig(num_blocks=256, max_batch_tokens=256)
        self.manager = self.model.init_continuous_batching(continuous_batching_config=config)
        self.manager.start()
        self.rounds = 0

    async def answer(self, prompts: list[Prompt], tokens: int) -> float:
        self.rounds += 1
        started = time.perf_counter()
        firsts = await asyncio.gather(
            *(self._one(f"{self.rounds}-{n}", p, tokens) for n, p in enumerate(prompts))
        )
        return min(firsts) - started

    async def _one(self, name: str, prompt: Prompt, tokens: int) -> float:
        outputs: asyncio.Queue[tuple[float, Any]] = asyncio.Queue()
        self.manager.register_result_handler(
            name, lambda output: outputs.put_nowait((time.perf_counter(), output))
        )
        self.manager.add_request(prompt, request_id=name, max_new_tokens=tokens, streaming=True)
        first_at = None
        while True:
            at, output = await outputs.get()
            if output.generated_tokens:
                first_at = first_at or at
            if output.is_finished():
                assert output.error is None, output.error
                assert len(output.generated_tokens) == tokens
                assert first_at is not None
                return first_at

    async def stop(self) -> None:
        await asyncio.to_thread(self.manager.stop, True)


SUBJECTS: dict[str, type[Subject]] = {"ours": Ours, "static": Static, "manager": Manager}


def load(model_path: Path, threads: int) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(threads)
    return AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32).eval()


async def measure(name: str, options: argparse.Namespace) -> Figures:
    subject, rng, figures = SUBJECTS[name](), random.Random(0), Figures()
    started = time.perf_counter()
    await subject.start(options.model, options.threads)
    figures.start_s = time.perf_counter() - started
    await subject.answer(prompts_of(rng, 8), 8)  # warm
    for callers in CALLERS:
        rounds = [await throughput(subject, rng, callers, options) for _ in range(options.rounds)]
        figures.tokens_per_s[str(callers)] = max(rate for rate, _ in rounds)
        figures.tokens_per_cpu_s[str(callers)] = max(rate for _, rate in rounds)
    await first_tokens(subject, rng, options.rounds, figures)
    figures.memory_mb = peak_mb()
    await subject.stop()
    return figures


async def throughput(
    subject: Subject, rng: random.Random, callers: int, options: argparse.Namespace
) -> tuple[float, float]:
    """Tokens per second, and per second of this process's CPU time."""
    prompts = prompts_of(rng, callers)
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    await subject.answer(prompts, options.tokens)
    tokens = callers * options.tokens
    return (
        tokens / (time.perf_counter() - begun_s),
        tokens / (time.process_time() - begun_cpu_s),
    )


async def first_tokens(subject: Subject, rng: random.Random, rounds: int, figures: Figures) -> None:
    prefix = prompt_of(rng, PREFIX_TOKENS)
    await subject.answer([prefix + prompt_of(rng, SUFFIX_TOKENS)], 2)
    new, shared = [], []
    for _ in range(max(5, rounds)):
        suffix = prompt_of(rng, SUFFIX_TOKENS)
        new.append(await subject.answer([prompt_of(rng, PREFIX_TOKENS) + suffix], 1))
        shared.append(await subject.answer([prefix + suffix], 1))
    figures.ttft_new_ms = min(new) * 1000
    figures.ttft_shared_ms = min(shared) * 1000


def prompts_of(rng: random.Random, count: int) -> list[Prompt]:
    return [prompt_of(rng, PROMPT_TOKENS) for _ in range(count)]


def prompt_of(rng: random.Random, tokens: int) -> Prompt:
    return rng.choices(VOCABULARY, k=tokens)


def peak_mb() -> float:
    """Peak resident memory of this process, from Linux's own books."""
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def in_its_own_process(name: str, options: argparse.Namespace) -> Figures:
    command = [sys.executable, "-m", "bench.engine", "--only", name, "--model", options.model]
    for option in ("tokens", "rounds", "threads"):
        command += [f"--{option}", str(getattr(options, option))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def table(figures: dict[str, Figures]) -> str:
    lines = [
        "| engine | start s | tok/s at 1 | at 8 | at 32 | per CPU s at 1 | at 8 | at 32 "
        "| TTFT ms, 528 new | of them 512 known | peak MB |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, each in figures.items():
        both = (each.tokens_per_s, each.tokens_per_cpu_s)
        rates = " | ".join(f"{by[str(callers)]:.0f}" for by in both for callers in CALLERS)
        lines.append(
            f"| {name} | {each.start_s:.1f} | {rates} | {each.ttft_new_ms:.1f} "
            f"| {each.ttft_shared_ms:.1f} | {each.memory_mb:.0f} |"
        )
    return "\n".join(lines)


def verdict(figures: dict[str, Figures]) -> str:
    lines = []
    for clock, of in (("s", "tokens_per_s"), ("CPU s", "tokens_per_cpu_s")):
        ours, static = getattr(figures["ours"], of), getattr(figures["static"], of)
        lines.append(
            f"tokens per {clock}: 8 callers get {ours['8'] / ours['1']:.1f} times one caller's "
            f"(wanted 3) and {ours['8'] / static['8']:.2f} times static-batch generate's "
            f"(wanted 0.6); 32 callers {ours['32'] / static['32']:.2f} times"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=Path("models/sluice-small"))
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", choices=SUBJECTS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(asdict(asyncio.run(measure(options.only, options)))))
        return
    figures = {name: in_its_own_process(name, options) for name in SUBJECTS}
    print(table(figures))
    print(verdict(figures))


if __name__ == "__main__":
    main()
