"""One Ray head on this machine, as a session of processes: start it, watch it, end all of it.

Leaves its addresses in `ray.json`, so that the controller finds it and the next start finds what a
killed one left. Guards that no process outlives `stop`.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from workers.ray_file import RayFile, read_ray_file, write_ray_file
from workers.ray_ports import RayPorts, claim_ports
from workers.ray_session import Session, end_session, session_of
from workers.settings import PROJECT_ROOT, RaySettings, WorkersSettings

_SOCKET_PATH_MAX = 107
_SOCKET_TAIL = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"


class RayFailed(Exception):
    """The cluster did not start, or something it cannot live without is gone."""


class RayCluster:
    """One head: `start()` before use, `stop()` on every way out."""

    def __init__(self, settings: WorkersSettings) -> None:
        self._settings = settings
        self._ray = settings.ray
        digest = hashlib.sha256(str(settings.data.resolve()).encode()).hexdigest()[:10]
        self._temp_dir = self._ray.temp_root / f"sluice-{digest}"
        self._log_path = settings.data / "ray.log"
        self._head: subprocess.Popen[bytes] | None = None
        self._claim: socket.socket | None = None
        self._file: RayFile | None = None

    @property
    def file(self) -> RayFile:
        assert self._file is not None, "the cluster is not started"
        return self._file

    def start(self, *, is_stopped: Callable[[], bool] = lambda: False) -> RayFile:
        """Start the head and wait until its REST API answers, or until `is_stopped` says to give
        up. Raises RayFailed, and leaves nothing behind then."""
        _check_socket_path(self._temp_dir)
        self._end_leftovers()
        self._settings.data.mkdir(parents=True, exist_ok=True)
        ports, self._claim = claim_ports(self._ray.ports_first, self._ray.ports_last)
        self._temp_dir.mkdir(mode=0o700, parents=True)
        with open(self._log_path, "wb") as log:
            self._head = subprocess.Popen(
                _command(self._ray, ports, self._temp_dir),
                env=_environment(self._settings, ports),
                cwd=self._temp_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._file = _ray_file(self._ray, ports, self._temp_dir, session_of(self._head.pid))
        write_ray_file(self._settings.ray_file, self._file)
        try:
            self._await_dashboard(is_stopped)
        except BaseException:
            self.stop()
            raise
        return self._file

    def failure(self) -> str | None:
        """Why this cluster must be given up; None while it is sound."""
        assert self._head is not None
        code = self._head.poll()
        if code is not None:
            return f"the Ray head ended with code {code}"
        host, port = self.file.gcs_address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=5.0).close()
        except OSError as refused:
            return f"Ray's control store does not answer: {refused}"
        return None

    def stop(self) -> None:
        """End every process of the session and remove the temporary folder."""
        if self._file is not None:
            end_session(self._file.session, grace_s=self._ray.stop_grace_s)
            self._settings.ray_file.unlink(missing_ok=True)
        if self._head is not None:
            self._head.wait()
        if self._claim is not None:
            self._claim.close()
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _end_leftovers(self) -> None:
        left = read_ray_file(self._settings.ray_file)
        if left is not None:
            ended = end_session(left.session, grace_s=self._ray.stop_grace_s)
            print(f"ended {ended} processes of an earlier cluster", file=sys.stderr)
        shutil.rmtree(self._temp_dir, ignore_errors=True)

    def _await_dashboard(self, is_stopped: Callable[[], bool]) -> None:
        step_s = 0.2
        for _ in range(round(self._ray.start_timeout_s / step_s)):
            assert self._head is not None
            if self._head.poll() is not None:
                raise RayFailed(
                    f"ray start ended with code {self._head.returncode}, see {self._log_path}"
                )
            if is_stopped():
                raise RayFailed("stopped while starting")
            if self._dashboard_answers():
                return
            time.sleep(step_s)
        raise RayFailed(f"no dashboard in {self._ray.start_timeout_s:.0f} s, see {self._log_path}")

    def _dashboard_answers(self) -> bool:
        request = urllib.request.Request(
            f"{self.file.dashboard_url}/api/serve/applications/",
            headers={"authorization": f"Bearer {self._settings.ray_auth_token.get_secret_value()}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=2.0) as reply:
                return bool(reply.status == 200)
        except urllib.error.HTTPError as refused:
            if refused.code in (401, 403):
                raise RayFailed("another cluster's dashboard, or a wrong token") from refused
            return False
        except OSError:
            return False


def _check_socket_path(temp_dir: Path) -> None:
    longest = len(str(temp_dir) + _SOCKET_TAIL)
    if longest > _SOCKET_PATH_MAX:
        raise RayFailed(f"[ray] temp_root is too long: sockets would need {longest} characters")


def _command(ray: RaySettings, ports: RayPorts, temp_dir: Path) -> list[str]:
    options = {
        "node-ip-address": ray.node_ip,
        "port": ports.gcs,
        "ray-client-server-port": ports.client_server,
        "dashboard-host": ray.dashboard_host,
        "dashboard-port": ports.dashboard,
        "dashboard-agent-listen-port": ports.dashboard_agent,
        "dashboard-agent-grpc-port": ports.dashboard_agent_grpc,
        "runtime-env-agent-port": ports.runtime_env_agent,
        "metrics-export-port": ports.metrics_export,
        "object-manager-port": ports.object_manager,
        "node-manager-port": ports.node_manager,
        "min-worker-port": ports.worker_first,
        "max-worker-port": ports.worker_last,
        "object-store-memory": ray.object_store_mb * 1_000_000,
        "num-cpus": ray.num_cpus,
        "include-log-monitor": "false",
        "temp-dir": temp_dir,
    }
    if ray.num_gpus is not None:
        options["num-gpus"] = ray.num_gpus
    program = str(Path(sys.executable).parent / "ray")
    flags = [f"--{name}={value}" for name, value in options.items()]
    return [program, "start", "--head", "--block", "--disable-usage-stats", *flags]


def _environment(settings: WorkersSettings, ports: RayPorts) -> dict[str, str]:
    """Ours minus every Sluice secret that workers have no use for, plus what Ray Serve reads."""
    ray = settings.ray
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "RAY_"))}
    threads = str(ray.worker_threads)
    return kept | {
        "PYTHONPATH": os.pathsep.join(
            [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        "SLUICE_WORKER_SECRET": settings.worker_secret.get_secret_value(),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": settings.ray_auth_token.get_secret_value(),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1" if ray.throughput_optimized else "0",
        "RAY_SERVE_ENABLE_DIRECT_INGRESS": "1",
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": str(ray.min_draining_s),
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.ingress_first),
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.ingress_last),
        "RAY_SERVE_PORT_QUARANTINE_S": str(ray.port_quarantine_s),
        "AUTOSCALER_METRIC_PORT": str(ports.autoscaler_metrics),
        "DASHBOARD_METRIC_PORT": str(ports.dashboard_metrics),
    }


def _ray_file(ray: RaySettings, ports: RayPorts, temp_dir: Path, session: Session) -> RayFile:
    return RayFile(
        dashboard_url=f"http://{ray.dashboard_host}:{ports.dashboard}",
        gcs_address=f"{ray.node_ip}:{ports.gcs}",
        node_ip=ray.node_ip,
        serve_proxy_port=ports.serve_proxy,
        ingress_ports=(ports.ingress_first, ports.ingress_last),
        temp_dir=str(temp_dir),
        session=session,
    )
