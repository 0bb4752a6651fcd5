"""The two small C programs of this folder, built once, and what one run of callers measures."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

HERE = Path(__file__).parent
OTHER_CORE = "1"
CHUNKS = 64
SYSTEM = (
    "You are a helpful assistant for an online store. Answer briefly, cite the policy paragraph"
    " when you rely on one, and never invent order numbers."
)
QUESTION = (
    "My order arrived yesterday but one of the two items is missing from the parcel. The tracking"
    " page says that everything was delivered in one box. What should I do now, and how long will"
    " it take before I get the missing item or a refund?"
)


@dataclass(frozen=True)
class Load:
    """`rate` 0: every connection asks again at once. `streams`: 64 events 5 ms apart each."""

    connections: int
    rate: float = 0.0
    warm_s: float = 1.0
    seconds: float = 4.0
    streams: bool = False


def request(key: str, model: str, *, stream: bool, path: str = "/v1/chat/completions") -> bytes:
    body: dict[str, object] = {
        "model": model,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ],
        "temperature": 0.7,
        "max_tokens": CHUNKS,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    data = json.dumps(body, separators=(",", ":")).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {key}\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data


def run(port: int, asked: bytes, load: Load, pid: int | None) -> dict[str, float]:
    """What callers saw, and `cores`: CPU of the process and its children, over the wall's time."""
    words = (port, load.connections, load.rate, load.warm_s, load.seconds)
    chunks = CHUNKS if load.streams else 0
    before_s = cpu_s(pid)
    done = subprocess.run(
        ["taskset", "-c", OTHER_CORE, str(built("load")), *map(str, words), str(chunks)],
        input=asked,
        stdout=subprocess.PIPE,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    used_s = cpu_s(pid) - before_s
    return figures | {"cores": used_s / (load.warm_s + load.seconds)}


def start_upstream(port: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["taskset", "-c", OTHER_CORE, str(built("upstream")), str(port), str(CHUNKS)]
    )


@cache
def built(name: str) -> Path:
    program = Path(tempfile.gettempdir()) / f"sluice-bench-{os.getuid()}-{name}"
    subprocess.run(["gcc", "-O2", "-o", str(program), str(HERE / f"{name}.c")], check=True)
    return program


def cpu_s(pid: int | None) -> float:
    if pid is None:
        return 0.0
    return sum(sum(p.cpu_times()[:2]) for p in _family(pid))


def rss_mb(pid: int) -> float:
    return sum(p.memory_info().rss for p in _family(pid)) / 2**20


def _family(pid: int) -> list[psutil.Process]:
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]
