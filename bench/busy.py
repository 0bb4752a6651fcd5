"""How often Redis counts as away on a machine with more work than cores, and nothing broken.

`python -m bench.busy [--seconds N] [--burners N] [--label TEXT]`: a whole Sluice, so many processes
that only compute, and callers of a key that may run three calls at once. Tells how often the
limiter's breaker opened, and the most calls that callers saw running at once. A JSON line goes to
bench/raw/busy.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx

from bench.running import QUESTION, Running, free_port, new_folder

RAW = Path(__file__).parent / "raw" / "busy.jsonl"
MODEL = "sluice-small"
AT_ONCE = 3
CALLERS = 8
PAUSE_S = 0.05
AWAY = "redis is away"
BURN = "while True: pass"


class Seen:
    """What all callers saw together."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self.most = 0
        self.statuses: Counter[int] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1


def main() -> None:
    asked = _arguments()
    data = new_folder()
    try:
        with Running(data, free_port()) as sluice, _burners(asked.burners):
            _limit(sluice)
            loads, seen = _run(sluice, asked.seconds)
        log = (data / "logs" / "gateway.log").read_text(errors="replace")
    finally:
        shutil.rmtree(data, ignore_errors=True)
    row = {
        "label": asked.label,
        "seconds": asked.seconds,
        "cores": os.cpu_count(),
        "load": [round(min(loads), 1), round(max(loads), 1)],
        "openings": log.count(AWAY),
        "calls": dict(sorted(seen.statuses.items())),
        "at_once_allowed": AT_ONCE,
        "at_once_most": seen.most,
    }
    print(json.dumps(row), flush=True)
    with RAW.open("a") as raw:
        raw.write(json.dumps(row) + "\n")


@contextmanager
def _burners(count: int) -> Iterator[None]:
    burning = [subprocess.Popen([sys.executable, "-S", "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for process in burning:
            process.kill()
            process.wait()


def _limit(sluice: Running) -> None:
    """The key of `up`; its id stands in the list of keys."""
    headers = {"authorization": f"Bearer {sluice.ready['admin_key']}"}
    keys = sluice.http.get(f"{sluice.base_url}/admin/v1/keys", headers=headers).json()["data"]
    for key in keys:
        path = f"{sluice.base_url}/admin/v1/limits/key:{key['id']}"
        sluice.http.put(path, headers=headers, json={"concurrency": AT_ONCE}).raise_for_status()


def _run(sluice: Running, seconds: float) -> tuple[list[float], Seen]:
    seen, stopping = Seen(), threading.Event()
    callers = [
        threading.Thread(target=_call, args=(sluice, seen, stopping)) for _ in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    loads = []
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        time.sleep(2.0)
        loads.append(os.getloadavg()[0])
    stopping.set()
    for caller in callers:
        caller.join()
    return loads, seen


def _call(sluice: Running, seen: Seen, stopping: threading.Event) -> None:
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": QUESTION,
        "max_tokens": 24,
        "stream": True,
    }
    with httpx.Client(timeout=130.0) as http:
        while not stopping.wait(PAUSE_S):
            url = f"{sluice.base_url}/v1/chat/completions"
            with http.stream("POST", url, headers=sluice.tenant_headers, json=body) as answer:
                seen.statuses[answer.status_code] += 1
                if answer.status_code == 200:
                    with seen.running():
                        for _ in answer.iter_raw():
                            pass


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--burners", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--label", default="")
    return parser.parse_args()


if __name__ == "__main__":
    main()
