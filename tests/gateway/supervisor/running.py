"""A running `sluice up` (with fake parts) as tests see it: its output, its files, its processes."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
QUICK = {
    "SLUICE_CONFIG": os.devnull,
    "SLUICE_SUPERVISOR__MEMORY_MIN_MB": "1",
    "SLUICE_SUPERVISOR__RESTART_BACKOFF_S": "0.05",
    "SLUICE_SUPERVISOR__STOP_TIMEOUT_S": "1",
    "SLUICE_SUPERVISOR__READY_TIMEOUT_S": "20",
}


class RunningUp:
    def __init__(self, data: Path, env: dict[str, str]) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.supervisor.fake_up"],
            cwd=ROOT,
            env={**os.environ, **QUICK, "SLUICE_DATA": str(data), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ready(self) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.end()
            file = self.data / "ready.json"
            return json.loads(file.read_text()) if file.exists() else None

        return wait_for(look)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Its exit status and everything it said."""
        output, _ = self.process.communicate(timeout=90)
        return self.process.returncode, output


@contextmanager
def running_up(data: Path, **env: str) -> Iterator[RunningUp]:
    """Leaves nothing behind, whatever the test did."""
    running = RunningUp(data, {"SLUICE_GATEWAY__PORT": str(free_port()), **env})
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()
        if running.process.stdout:
            running.process.stdout.close()
        for process in family(data):
            with suppress(psutil.NoSuchProcess):
                process.kill()


def family(data: Path) -> list[psutil.Process]:
    """Every process that was started for this data folder, found by its environment."""
    mark = str(data)
    found = []
    for process in psutil.process_iter():
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.environ().get("SLUICE_DATA") == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(look: Callable[[], T | None], within_s: float = 60.0) -> T:
    until_s = time.monotonic() + within_s
    while time.monotonic() < until_s:
        if (seen := look()) is not None:
            return seen
        time.sleep(0.02)
    raise AssertionError(f"not seen within {within_s} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
