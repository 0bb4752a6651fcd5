"""A Ray cluster that somebody else runs, instead of a head of our own, in the foreground.

Checks the cluster from outside and from inside, brings our code, and writes its address to
`ray.json`, so that the controller finds it. Nothing is deployed before everything is checked. On
SIGTERM it takes away our applications and nothing else.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version

from workers.existing.applications import code_env, own_details
from workers.existing.dashboard import CannotJoin, Dashboard, Unreachable, Version
from workers.existing.fitness import misfits, misfits_of_version, modules_of, notices
from workers.existing.nodes import NodesMirror
from workers.existing.package import own_package
from workers.existing.writer import EVERY_INTERFACE, SERVE_PORT, WriterJob
from workers.nodes.folder import NodesFolder
from workers.ray.file import RayFile, read_ray_file, write_ray_file
from workers.ray.session import session_of
from workers.settings import WorkersSettings

LOOK_EVERY_S = 30.0
"""How often the cluster is looked at, and our package kept there."""
WRITER_LOOK_S = 2.0
"""How often the writer and the nodes are looked at."""
PAUSE_S, PAUSE_MAX_S = 0.5, 8.0
LEAVE_LOOKS = 20
LEAVE_LOOK_S = 0.5
LEFT_LOOKS = 2
"""None of ours in so many looks: no controller is in the midst of a deployment any more."""
CONTROLLER = "workers.controller"
CONTROLLER_STOPS_S = 5.0
_PR_SET_PDEATHSIG = 1


def pauses(wait_s: float) -> Iterator[float]:
    """Seconds between tries, doubling, which together are no longer than `wait_s`."""
    left_s, pause_s = wait_s, PAUSE_S
    while left_s > 0:
        yield min(pause_s, left_s)
        left_s -= pause_s
        pause_s = min(2 * pause_s, PAUSE_MAX_S)


class ExistingCluster:
    """One cluster as joined by this process. `alone`: no other part runs a controller."""

    def __init__(
        self, settings: WorkersSettings, stopping: threading.Event, *, alone: bool
    ) -> None:
        assert settings.ray.address is not None
        self._settings = settings
        self._stopping = stopping
        self._alone = alone
        self._parent = os.getppid()
        self._dashboard = Dashboard(
            settings.ray.address, settings.ray_auth_token.get_secret_value()
        )
        self._writer = WriterJob(settings, self._dashboard)
        self._controller: subprocess.Popen[bytes] | None = None
        self._folder = settings.data / "existing"
        self._life = ""

    def run(self) -> int:
        """Join, stay until `stopping`, and leave. Raises CannotJoin."""
        try:
            self._join_in_time()
        except CannotJoin:
            with suppress(CannotJoin, Unreachable):
                self._writer.end()
            raise
        try:
            print(f"ready workers dashboard={self._settings.ray.address}", flush=True)
            self._stay()
        finally:
            left = self._leave()
        return 0 if left else 1

    def _join_in_time(self) -> None:
        """Join once the cluster answers. Raises CannotJoin."""
        wait_s = self._settings.ray.join_wait_s
        trouble = ""
        for pause_s in [*pauses(wait_s), 0.0]:
            try:
                return self._join(self._dashboard.version())
            except Unreachable as away:
                if not trouble and pause_s:
                    _say(f"{away}; trying again for {wait_s:.0f} s")
                trouble = str(away)
            if self._stopping.wait(pause_s):
                raise CannotJoin("stopped while joining")
        raise CannotJoin(trouble)

    def _join(self, theirs: Version) -> None:
        """Check everything, and then say where the cluster is. Raises CannotJoin, Unreachable."""
        ours = version("ray")
        if reasons := list(misfits_of_version(theirs.ray_version, ours)):
            raise CannotJoin(*reasons)
        self._dashboard.keep_package(own_package())
        facts = self._dashboard.probe(
            code_env(self._settings),
            modules_of(self._settings.engine),
            self._settings.ray.start_timeout_s,
        )
        if reasons := list(misfits(facts, ours)):
            raise CannotJoin(*reasons)
        for notice in notices(facts, has_tokens=self._dashboard.has_tokens()):
            _say(f"notice: {notice}")
        self._life = theirs.session_name
        self._tell()

    def _tell(self) -> None:
        """Say where the cluster, its writer and its nodes are. Raises CannotJoin, Unreachable."""
        file = self._file(self._writer.keep())
        if read_ray_file(self._settings.ray_file) != file:
            write_ray_file(self._settings.ray_file, file)
        if types := self._settings.nodes:
            now_ms = time.time_ns() // 1_000_000  # noqa: TID251 composition root
            NodesMirror(NodesFolder(file.nodes_folder), types).note(self._dashboard.nodes(), now_ms)

    def _file(self, writer_url: str) -> RayFile:
        assert self._settings.ray.address is not None
        return RayFile(
            dashboard_url=self._settings.ray.address.rstrip("/"),
            gcs_address="",
            node_ip=EVERY_INTERFACE,
            serve_proxy_port=SERVE_PORT,
            ingress_ports=(0, 0),
            temp_dir=str(self._folder / self._life / "ray"),
            session=session_of(os.getpid()),
            joined=self._life,
            writer_url=writer_url,
        )

    def _stay(self) -> None:
        trouble, looked_s = "", 0.0
        while True:
            self._control()
            pause_s = PAUSE_MAX_S if trouble else WRITER_LOOK_S
            if self._stopping.wait(pause_s):
                return
            looked_s += pause_s
            is_whole = bool(trouble) or looked_s >= LOOK_EVERY_S
            looked_s = 0.0 if is_whole else looked_s
            before, trouble = trouble, self._look(is_whole=is_whole)
            if trouble and trouble != before:
                _say(f"{trouble}; trying again")

    def _look(self, *, is_whole: bool) -> str:
        """Keep what the cluster has of us. A cluster that was started anew is joined anew. Returns
        why it cannot be reached, if so."""
        try:
            if is_whole:
                now = self._dashboard.version()
                if now.session_name != self._life:
                    self._join(now)
                self._dashboard.keep_package(own_package())
            self._tell()
        except Unreachable as away:
            return str(away)
        return ""

    def _control(self) -> None:
        if self._alone and (self._controller is None or self._controller.poll() is not None):
            self._controller = subprocess.Popen(
                [sys.executable, "-m", CONTROLLER], preexec_fn=_end_with_parent
            )

    def _leave(self) -> bool:
        """Take away our applications. Without the file no controller deploys another one. Where
        `sluice up` was killed, and the next one ends what is left, it takes over instead."""
        if not self._alone and os.getppid() != self._parent:
            return True
        self._settings.ray_file.unlink(missing_ok=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._controller is not None:
            self._controller.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._controller.wait(CONTROLLER_STOPS_S)
            self._controller.kill()
        try:
            self._take_away()
        except (Unreachable, CannotJoin) as away:
            _say(f"the applications are left there: {away}")
            return False
        return True

    def _take_away(self) -> None:
        """Wait until none of ours is there, a bounded time. One that still works ends by itself."""
        clean = 0
        for _ in range(LEAVE_LOOKS):
            details = own_details(self._dashboard.serve_details(), self._settings)
            for name, app in details.applications.items():
                if app.status != "DELETING":
                    self._writer.delete(name)
            clean = 0 if details.applications else clean + 1
            if clean == LEFT_LOOKS:
                break
            threading.Event().wait(LEAVE_LOOK_S)
        self._writer.end()


def join(settings: WorkersSettings, stopping: threading.Event, *, alone: bool) -> int:
    """The exit code. Each thing that is missing is a line of its own."""
    try:
        return ExistingCluster(settings, stopping, alone=alone).run()
    except CannotJoin as wrong:
        for line in wrong.args:
            _say(f"cannot join {settings.ray.address}: {line}")
        return 0 if stopping.is_set() else 1


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _say(line: str) -> None:
    print(f"workers: {line}", file=sys.stderr, flush=True)
