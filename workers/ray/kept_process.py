"""A process that its owner starts again when it died, later each time."""

import subprocess
import time
from collections.abc import Mapping, Sequence


class KeptProcess:
    """Its standard input is a pipe that ends with the owner."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        pause_s: float,
        pause_max_s: float = float("inf"),
    ) -> None:
        self._name = name
        self._command = command
        self._env = env
        self._pause_s = pause_s
        self._pause_max_s = pause_max_s
        self._start()

    def _start(self) -> None:
        self._started_s = time.monotonic()  # noqa: TID251
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, env=self._env)

    def mend(self) -> None:
        since_s = time.monotonic() - self._started_s  # noqa: TID251
        if self._process.poll() is not None and since_s >= self._pause_s:
            print(f"the {self._name} ended, starting another", flush=True)
            self._pause_s = min(self._pause_s * 2, self._pause_max_s)
            self._start()
