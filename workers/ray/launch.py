"""`python -m workers.ray.launch`: the Ray head of this machine, in the foreground.

With `address` of `[ray]` it joins a cluster that somebody else runs (`workers.existing.join`). With
`--alone` it runs a controller for that as well.

Starts the cluster, says when it is ready, watches it, and ends all of it on SIGTERM or SIGINT. If
the cluster breaks it ends the rest and exits with code 1, so that its supervisor starts it again.
Tests run a private cluster with the same functions.
"""

import ctypes
import fcntl
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from workers.existing.join import join
from workers.ray.cluster import RayCluster, RayFailed
from workers.ray.ports import NoFreePorts
from workers.ray.session import reap_children
from workers.settings import SettingsError, WorkersSettings, load_settings

ALONE = "--alone"
_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    try:
        settings = load_settings()
        with _alone_on(settings.data):
            if settings.ray.address is not None:
                return join(settings, stopping, alone=ALONE in sys.argv)
            return _supervise(RayCluster(settings), settings, stopping)
    except (SettingsError, RayFailed, NoFreePorts, BlockingIOError) as wrong:
        print(f"workers: {wrong}", file=sys.stderr)
        return 0 if stopping.is_set() else 1


def _supervise(cluster: RayCluster, settings: WorkersSettings, stopping: threading.Event) -> int:
    _adopt_orphans()
    file = cluster.start(is_stopped=stopping.is_set)
    try:
        print(f"ready workers dashboard={file.dashboard_url} gcs={file.gcs_address}", flush=True)
        while not stopping.wait(settings.ray.watch_interval_s):
            cluster.reap()
            failure = cluster.failure()
            if failure is not None:
                print(f"workers: {failure}", file=sys.stderr)
                return 1
        return 0
    finally:
        cluster.stop()
        reap_children()


@contextmanager
def _alone_on(data: Path) -> Iterator[None]:
    """Allow one launcher per data folder. The lock goes with the process."""
    data.mkdir(parents=True, exist_ok=True)
    with open(data / "ray.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(f"another launcher runs on {data}") from error
        yield


def _adopt_orphans() -> None:
    """Become the parent of Ray's orphans, so that none stays behind as a zombie."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main())
