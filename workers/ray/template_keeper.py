"""Starts the template of workers beside a raylet, and starts it again when it died."""

import os
import subprocess
import sys
import time
from pathlib import Path

import ray

from workers.ray import worker_start

RAY_WORKER = "_private/workers/default_worker.py"
PAUSE_S = 10.0
"""Before the first template that died is made again. It doubles each time."""
FORKABLE = {"PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
"""torch looks for a GPU without opening it: no fork could use one that the template has opened."""


def template_keeper(spares: int, starts: str) -> "TemplateKeeper | None":
    """None where no spares are to be, and on systems whose libraries do not outlive a fork."""
    return TemplateKeeper(spares, starts) if spares and sys.platform == "linux" else None


class TemplateKeeper:
    """The process that keeps spares. Without it raylets start workers as Ray does."""

    def __init__(self, spares: int, starts: str) -> None:
        """`starts`: the path of the socket. Raylets that this process starts from here on use it,
        where `worker_path` is their worker."""
        self._command = [sys.executable, "-m", "workers.ray.template", starts, str(spares)]
        self._pause_s = PAUSE_S
        os.environ |= {
            worker_start.SOCKET: starts,
            worker_start.INTERPRETER: sys.executable,
            worker_start.WORKER: str(Path(ray.__file__).parent / RAY_WORKER),
        }
        self._start()

    @property
    def worker_path(self) -> str:
        return worker_start.__file__

    def _start(self) -> None:
        self._started_s = time.monotonic()  # noqa: TID251
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, env=os.environ | FORKABLE
        )

    def mend(self) -> None:
        """Start the template again if it died, later each time."""
        since_s = time.monotonic() - self._started_s  # noqa: TID251
        if self._process.poll() is not None and since_s >= self._pause_s:
            print("the template of workers ended, starting another", flush=True)
            self._pause_s *= 2
            self._start()
