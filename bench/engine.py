"""Tokens per second of CPU engines, side by side: ours, transformers' static-batch `generate` and
its continuous-batching manager, vLLM as a replica runs it, and vLLM's own AsyncLLM with its two
more processes; time to first token with and without a shared prefix; memory. vLLM takes part where
`make vllm` was run.

Run as `python -m bench.engine [--model models/sluice-small] [--tokens 96] [--rounds 5]`. Every
engine runs in a process of its own with the same number of threads, greedy, on the same prompts, to
the full number of tokens. Callers start together and their streams are read as they come. The best
round counts, for what disturbs the others is the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

import psutil

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
    def __init__(self, name: str = "continuous") -> None:
        self._name = name

    async def start(self, model_path: Path, threads: int) -> None:
        from workers.engines.base import EngineSettings
        from workers.engines.registry import engine_named

        settings = EngineSettings(model_path, slots=max(CALLERS), threads=threads)
        self.engine = engine_named(self._name, settings)
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


class AsyncLlm:
    """vLLM's own way to serve: its core and its worker are processes of their own."""

    async def start(self, model_path: Path, threads: int) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        from workers.engines.base import EngineSettings
        from workers.engines.vllm.arguments import engine_arguments

        os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        settings = EngineSettings(model_path, slots=max(CALLERS), threads=threads)
        arguments = engine_arguments(settings, context_tokens=1024, gpu=False)
        del arguments["distributed_executor_backend"]
        self.llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**arguments))
        self.asked = 0

    async def answer(self, prompts: list[Prompt], tokens: int) -> float:
        return min(await asyncio.gather(*(self._one(prompt, tokens) for prompt in prompts)))

    async def _one(self, prompt: Prompt, tokens: int) -> float:
        from vllm import SamplingParams
        from vllm.inputs import tokens_input
        from vllm.sampling_params import RequestOutputKind

        started, first_s, got = time.perf_counter(), None, 0
        self.asked += 1
        sampling = SamplingParams(
            temperature=0,
            max_tokens=tokens,
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
        )
        async for output in self.llm.generate(tokens_input(prompt), sampling, str(self.asked)):
            first_s = first_s or time.perf_counter() - started
            got += len(output.outputs[0].token_ids)
        assert first_s is not None
        assert got == tokens
        return first_s

    async def stop(self) -> None:
        self.llm.shutdown()
        del self.llm


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "ours": Ours,
    "static": Static,
    "manager": Manager,
    "vllm": lambda: Ours("vllm"),
    "async-llm": AsyncLlm,
}
ON_VLLM = ("vllm", "async-llm")


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
    """Tokens per second, and per second of CPU time, child processes included."""
    prompts = prompts_of(rng, callers)
    begun_s, begun_cpu_s = time.perf_counter(), cpu_s()
    await subject.answer(prompts, options.tokens)
    tokens = callers * options.tokens
    return (
        tokens / (time.perf_counter() - begun_s),
        tokens / (cpu_s() - begun_cpu_s),
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


def cpu_s() -> float:
    """CPU time of this process and of those it started."""
    return time.process_time() + sum(sum(each.cpu_times()[:2]) for each in children())


def peak_mb() -> float:
    """Peak resident memory of this process and of those it started, from Linux's own books."""
    return sum(_peak_mb(pid) for pid in (os.getpid(), *(each.pid for each in children())))


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _peak_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def in_its_own_process(name: str, options: argparse.Namespace) -> Figures:
    from workers.settings import VllmSettings

    python = VllmSettings().interpreter if name in ON_VLLM else sys.executable
    command = [python, "-m", "bench.engine", "--only", name, "--model", options.model]
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
    from workers.settings import VllmSettings

    installed = VllmSettings().interpreter.exists()
    subjects = [name for name in SUBJECTS if installed or name not in ON_VLLM]
    figures = {name: in_its_own_process(name, options) for name in subjects}
    print(table(figures))
    print(verdict(figures))


if __name__ == "__main__":
    main()
