"""`python -m workers.ray.head OPTIONS`: the processes of one Ray head, in the foreground.

It does what `ray start --head --block` does. It is built on Ray's own `Node` (private, so pinned
with Ray) where that decides how long a cluster is away. A raylet that died is started again on the
living control store, so Serve goes on with its applications. The dashboard starts beside the
raylet, not before it, and with the one module that is used. Processes that nothing uses are not
started: no server for Ray clients, and no autoscaler where no nodes are declared.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psutil
import ray
from ray._private import ray_constants, services
from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._private.resource_isolation_config import ResourceIsolationConfig

from workers.ray.kept_process import KeptProcess
from workers.ray.session import Session, members, session_of
from workers.ray.template_keeper import template_keeper

LOOK_EVERY_S = 0.1
DASHBOARD_MODULES = "ServeHead"
RAYLET_TRIES = 3
"""It gives up where its agents take more than half a minute to start, as on a very busy machine."""
WORKED_AFTER_S = 10.0
"""A raylet or a dashboard that dies sooner than this is not the only thing that is broken."""

WRITER_PAUSE_S, WRITER_PAUSE_MAX_S = 1.0, 10.0
"""Before a writer that ended is started again. It ends with the raylet, too."""

AUTOSCALER_PAUSE_S = 1.0
"""Between the end of an autoscaler and the start of the next one."""


class Head(Node):  # type: ignore[misc]  # Ray has no types
    """`..._started_s` is when the process that runs now was started."""

    raylet_started_s: float
    dashboard_started_s: float

    def start_head_processes(self) -> None:
        self.start_gcs_server()
        self.get_gcs_client()
        self._write_cluster_info_to_kv()
        self._webui_url = f"{self._ray_params.dashboard_host}:{self._ray_params.dashboard_port}"
        self._start_dashboard()
        self.start_autoscaler()

    def _start_dashboard(self) -> None:
        self.dashboard_started_s = time.monotonic()  # noqa: TID251
        options = {"include_dashboard": True, "raise_on_failure": False}
        threading.Thread(target=self.start_api_server, kwargs=options, daemon=True).start()

    def start_autoscaler(self) -> None:
        """Start Ray's autoscaler, where nodes are declared. It remembers nothing of its own."""
        if not (config := self._ray_params.autoscaling_config):
            return
        out, err = self.get_log_file_names("monitor", unique=True, create_out=True, create_err=True)
        self.all_processes[ray_constants.PROCESS_TYPE_MONITOR] = [
            services.start_monitor(
                self.gcs_address,
                self._logs_dir,
                stdout_filepath=out,
                stderr_filepath=err,
                autoscaling_config=config,
                autoscaler_v2=True,
            )
        ]

    def restart_dashboard(self) -> None:
        """Start the dashboard again. Its modules end with it, and the cluster goes on without
        it."""
        del self.all_processes[ray_constants.PROCESS_TYPE_DASHBOARD]
        self.get_gcs_client().internal_kv_del(
            ray_constants.DASHBOARD_ADDRESS.encode(),
            False,
            ray_constants.KV_NAMESPACE_DASHBOARD,
        )
        self._start_dashboard()

    def start_ray_processes(self) -> None:
        for _ in range(RAYLET_TRIES):
            super().start_ray_processes()
            self.raylet_started_s = time.monotonic()  # noqa: TID251
            while not self._raylet_is_known() and not self.died():
                time.sleep(LOOK_EVERY_S)
            if not (died := self.died()):
                return
            if died != [ray_constants.PROCESS_TYPE_RAYLET]:
                break
            self._forget_raylet()
        raise RuntimeError(f"ended while Ray started: {', '.join(died)}")

    def _raylet_is_known(self) -> bool:
        """Whether the raylet has registered. It does once its agents run. On a busy machine that
        takes longer than the half a minute for which Ray waits. The process that started this one
        has a bound of its own."""
        with suppress(RuntimeError):
            return bool(services.get_node(self.gcs_address, self._node_id))
        return False

    def restart_raylet(self) -> None:
        """Start the raylet again, as another node of the same cluster. The control store then
        counts the old one as dead at once."""
        self._forget_raylet()
        self.start_ray_processes()

    def _forget_raylet(self) -> None:
        """Forget the raylet, and end the processes that it left, which would hold its ports."""
        _end_workers(session_of(os.getpid()))
        del self.all_processes[ray_constants.PROCESS_TYPE_RAYLET]
        self._node_id = ray.NodeID.from_random().hex()
        self._raylet_socket_name = self._prepare_socket_file(None, "raylet")
        self._plasma_store_socket_name = self._prepare_socket_file(None, "plasma_store")

    def died(self) -> list[str]:
        return [kind for kind, _ in self.dead_processes()]


def main() -> int:
    services.start_ray_process = _with_few_modules(services.start_ray_process)
    options: dict[str, Any] = json.loads(sys.argv[1])
    writer_options = options.pop("writer")
    template = template_keeper(options.pop("spares"), f"{options['temp_dir']}/starts")
    if template is not None:
        options["worker_path"] = template.worker_path
    params = RayParams(
        include_dashboard=True,
        include_log_monitor=False,
        no_monitor=True,
        resource_isolation_config=ResourceIsolationConfig(enable_resource_isolation=False),
        **options,
    )
    head = Head(params, head=True, shutdown_at_exit=False, spawn_reaper=False)
    signal.signal(signal.SIGTERM, lambda *_: _end(head, 0))
    writer = KeptProcess(
        "writer",
        [sys.executable, "-m", "workers.writer", json.dumps(writer_options)],
        env=os.environ,
        pause_s=WRITER_PAUSE_S,
        pause_max_s=WRITER_PAUSE_MAX_S,
    )
    while True:
        time.sleep(LOOK_EVERY_S)
        if template is not None:
            template.mend()
        writer.mend()
        died = head.died()
        if died and not _mended(head, died):
            print(f"ended: {', '.join(died)}", flush=True)
            _end(head, 1)


def _mended(head: Head, died: list[str]) -> bool:
    dashboard_s = time.monotonic() - head.dashboard_started_s  # noqa: TID251
    if died == [ray_constants.PROCESS_TYPE_DASHBOARD] and dashboard_s >= WORKED_AFTER_S:
        print("the dashboard ended, starting another", flush=True)
        head.restart_dashboard()
        return True
    if died == [ray_constants.PROCESS_TYPE_MONITOR]:
        print("the autoscaler ended, starting another", flush=True)
        time.sleep(AUTOSCALER_PAUSE_S)
        head.start_autoscaler()
        return True
    worked_s = time.monotonic() - head.raylet_started_s  # noqa: TID251
    if died != [ray_constants.PROCESS_TYPE_RAYLET] or worked_s < WORKED_AFTER_S:
        return False
    print(f"the raylet ended after {worked_s:.0f} s, starting another", flush=True)
    head.restart_raylet()
    return True


def _end_workers(session: Session) -> None:
    """End the workers of the raylet that is gone. They would end by themselves, later, and hold its
    ports until then."""
    orphans = [process for process in members(session) if _is_worker(process)]
    for process in orphans:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(orphans, timeout=5.0)


def _is_worker(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "".join(process.cmdline()[:1]).startswith("ray::")
    return False


def _end(head: Head, status: int) -> None:
    head.kill_all_processes(check_alive=False, allow_graceful=False)
    os._exit(status)


def _with_few_modules(start: Callable[..., Any]) -> Callable[..., Any]:
    """`start`, with few modules for the dashboard. Each module is a process, and all are imported
    before Ray is up."""

    def start_ray_process(command: list[str], process_type: str, *rest: Any, **named: Any) -> Any:
        if process_type == ray_constants.PROCESS_TYPE_DASHBOARD:
            command = [*command, f"--modules-to-load={DASHBOARD_MODULES}"]
        return start(command, process_type, *rest, **named)

    return start_ray_process


if __name__ == "__main__":
    sys.exit(main())
