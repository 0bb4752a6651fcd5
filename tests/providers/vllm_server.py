"""vLLM's own server, in the environment of `make vllm`, with a small model on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.stack_process import free_port

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
NAME = "small"
START_S = 300.0
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
_LINE = re.compile(r"^vllm:(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class VllmServer:
    url: str
    """Without `/v1`."""

    def count(self, name: str) -> int:
        """What it says itself in its metrics, summed over their labels."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            lines = _LINE.findall(response.read().decode())
        return round(sum(float(value) for line, value in lines if line == name))


@contextmanager
def vllm_server(model: Path, folder: Path, *arguments: str) -> Iterator[VllmServer]:
    """Serves a checkpoint once it is ready; its log is in the folder."""
    url, log = f"http://127.0.0.1:{free_port()}", folder / "vllm.log"
    command = [PYTHON, "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", model, "--served-model-name", NAME, "--dtype", "float32"]
    command += ["--enforce-eager", "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
    with log.open("wb") as told:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env=os.environ | ENVIRONMENT,
            stdout=told,
            stderr=told,
        )
        try:
            _wait(url, process, log)
            yield VllmServer(url)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise AssertionError(f"vLLM did not start: {log.read_text(errors='replace')[-3000:]}")
