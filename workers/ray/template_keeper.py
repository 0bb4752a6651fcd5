"""Starts the template of workers beside a raylet, and starts it again when it died."""

import os
import sys
from pathlib import Path

import ray

from workers.ray import worker_start
from workers.ray.kept_process import KeptProcess

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
        os.environ |= {
            worker_start.SOCKET: starts,
            worker_start.INTERPRETER: sys.executable,
            worker_start.WORKER: str(Path(ray.__file__).parent / RAY_WORKER),
        }
        self._process = KeptProcess(
            "template of workers",
            [sys.executable, "-m", "workers.ray.template", starts, str(spares)],
            env=os.environ | FORKABLE,
            pause_s=PAUSE_S,
        )

    @property
    def worker_path(self) -> str:
        return worker_start.__file__

    def mend(self) -> None:
        self._process.mend()
