"""`python -m workers.ray.template SOCKET COUNT`: processes that have imported everything, and hold
no model.

This process, the template, imports once what a replica needs, and forks. COUNT forks are parked at
the socket: the spares. A raylet that starts a worker gives it to one of them (`worker_start`),
which goes on as that worker. Another one is made behind it once that start is over, because making
it takes a processor that the start needs. All of them share the memory of what the template has
imported.

Ray reads variables of a worker while it is imported, its job and its raylet among them. So the
template does not import Ray. A spare does, with the variables that the last worker had. It leaves
a start with others to Ray. A start that finds no spare gets a fork at once, which imports Ray then.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workers.ray.worker_start import START, TAKEN, WORKER

SPARE_TITLE = "sluice spare"
READY = b"ready\n"
BACKLOG = 1024
HELD_MAX_S = 10.0
"""So long a start holds up new spares at most: workers that are no replicas never say that they are
up, and a replica may hang."""
RAY_VARIABLES = ("RAY_JOB_ID", "RAY_RAYLET_PID")
"""What Ray reads while it is imported, of all that differs between workers."""

LIBRARIES = (
    "fastapi",
    "uvicorn",
    "workers.deployments.parts",
    "workers.deployments.server",
    "workers.engines.continuous.batch",
    "workers.engines.continuous.sequence",
    "transformers.models.llama.modeling_llama",
    "transformers.models.auto.tokenization_auto",
    "transformers.models.auto.modeling_auto",
    "safetensors.torch",
)
"""What a replica of our engine has imported once it answers. Nothing of it starts a thread."""
RAY = (
    "ray._private.workers.default_worker",
    "ray.serve._private.replica",
    "workers.deployments.engine_app",
    "workers.deployments.serve_port",
)

Variables = Mapping[str, str]


def main(socket_path: str, count: int) -> None:
    listener = _listener(socket_path)
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what was imported is not looked at again, so that it stays shared
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # forks that ended leave nothing behind
    print("ready template", flush=True)
    Template(listener, count).run()


def _listener(socket_path: str) -> socket.socket:
    Path(socket_path).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener


class Template:
    """`forks`: the pipe of each fork that took no start yet, and whether it waits for one.
    `starts`: the pipe of each one that took a start, and until when that holds up new spares."""

    def __init__(self, listener: socket.socket, count: int) -> None:
        self._listener = listener
        self._count = count
        self._forks: dict[int, bool] = {}
        self._hurried: set[int] = set()
        self._starts: dict[int, float] = {}
        self._variables: Variables | None = None

    def run(self) -> None:
        """Keep spares parked until standard input ends: whoever started this is gone then."""
        while True:
            held_s = max((until_s - _now_s() for until_s in self._starts.values()), default=0.0)
            while held_s <= 0 and self._variables is not None and len(self._forks) < self._count:
                self._forks[self._fork(hurried=False)] = False
            unserved = [] if any(self._forks.values()) or self._hurried else [self._listener]
            ready, _, _ = select.select(
                *([sys.stdin, *self._forks, *self._hurried, *self._starts, *unserved], [], []),
                held_s if held_s > 0 else None,
            )
            if sys.stdin in ready:
                return
            for pipe in ready:
                if isinstance(pipe, int):
                    self._hear(pipe)
            if self._listener in ready:
                self._hurried.add(self._fork(hurried=True))

    def _hear(self, pipe: int) -> None:
        """A fork says that it is ready, or the variables of the start that it takes. Its pipe ends
        when that start is over, and when it dies."""
        word = os.read(pipe, 4096)
        if word == READY:
            self._forks[pipe] = True
            return
        self._forks.pop(pipe, None)
        self._hurried.discard(pipe)
        self._starts.pop(pipe, None)
        if word:
            self._variables = json.loads(word)
            self._starts[pipe] = _now_s() + HELD_MAX_S
        else:
            os.close(pipe)

    def _fork(self, *, hurried: bool) -> int:
        heard, says = os.pipe()
        if os.fork():
            os.close(says)
            return heard
        try:
            for pipe in (heard, *self._forks, *self._hurried, *self._starts):
                os.close(pipe)
            _be_spare(self._listener, says, None if hurried else self._variables)
        finally:
            os._exit(1)


def _be_spare(listener: socket.socket, says: int, variables: Variables | None) -> None:
    """Wait for a start, and go on as that worker."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if variables is not None:
        os.environ |= variables
        _import_ray()
        os.write(says, READY)
    with _next_start(listener) as connection:
        listener.close()
        start = _start(connection)
        own = {name: start["environment"].get(name, "") for name in RAY_VARIABLES}
        os.write(says, json.dumps(own).encode())
        if variables not in (None, own):
            return
        connection.sendall(TAKEN)
        if connection.recv(1) != TAKEN:
            return
    _be_worker(start, says)


def _import_ray() -> None:
    for name in RAY:
        importlib.import_module(name)
    from ray._raylet import setproctitle  # type: ignore[attr-defined]

    setproctitle(SPARE_TITLE)


def _next_start(listener: socket.socket) -> socket.socket:
    """Wait among all spares for a start. Ends the process when the template ends."""
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            os._exit(0)
        try:
            connection, _ = listener.accept()
        except BlockingIOError:
            continue  # another spare was first
        connection.setblocking(True)
        return connection


def _start(connection: socket.socket) -> dict[str, Any]:
    """The start of a worker. Takes over its standard files."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    raw = b""
    while not raw.endswith(b"\n") and (part := connection.recv(65536)):
        raw += part
    start: dict[str, Any] = json.loads(raw)
    return start


def _be_worker(start: Mapping[str, Any], says: int) -> None:
    """`says` stays open until the worker ends its start, or ends."""
    os.environ.clear()
    os.environ.update(start["environment"] | {START: str(says)})
    os.chdir(start["folder"])
    os.setpgid(0, 0)  # a raylet ends the group of a worker with it
    sys.argv = [os.environ[WORKER], *start["arguments"]]
    runpy.run_path(os.environ[WORKER], run_name="__main__")


def _now_s() -> float:
    return time.monotonic()  # noqa: TID251 composition root


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
