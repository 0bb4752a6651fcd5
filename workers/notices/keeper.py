"""Starts the watcher of a node's notices, and starts it again when it ended."""

import subprocess
import sys
import time

import msgspec

from workers.notices.order import WatchOrder

PAUSE_S = 1.0
"""Before a watcher that ended is started again, each time twice as long,"""
PAUSE_S_MAX = 60.0
WORKED_AFTER_S = 60.0
"""but for one that had worked so long."""


class WatcherKeeper:
    """The watcher ends with this process: it reads a pipe from it."""

    def __init__(self, order: WatchOrder) -> None:
        order_json = msgspec.json.encode(order).decode()
        self._command = [sys.executable, "-m", "workers.notices", order_json]
        self._pause_s = PAUSE_S
        self._start()

    def _start(self) -> None:
        self._started_s = time.monotonic()  # noqa: TID251
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)

    def mend(self) -> None:
        if self._process.poll() is None:
            return
        since_s = time.monotonic() - self._started_s  # noqa: TID251
        if since_s >= WORKED_AFTER_S:
            self._pause_s = PAUSE_S
        if since_s >= self._pause_s:
            print("the watcher of notices ended, starting another", flush=True)
            self._pause_s = min(PAUSE_S_MAX, self._pause_s * 2)
            self._start()
