"""One Ray head on this machine, as a session of processes: start it, watch it, end all of it.

Writes its addresses to `ray.json`, so that the controller finds it. The next start finds there what
a killed one left. Guards that no process outlives `stop`.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from workers.nodes.cluster_config import cluster_config
from workers.nodes.disks import remove_disks
from workers.nodes.folder import NodesFolder
from workers.nodes.node_type import HEAD
from workers.ray.file import RayFile, nodes_folder, read_ray_file, write_ray_file
from workers.ray.ports import RayPorts, claim_ports
from workers.ray.session import Session, end_session, has_leader, reap_children, session_of
from workers.ray.variables import replica_variables
from workers.settings import LOOPBACK, PROJECT_ROOT, RaySettings, WorkersSettings
from workers.weights import wanted

FOLDER, INNER = "sluice-", "ray"
ADOPTION_TRIES = 10
"""At a dashboard that may be slow: of two seconds each."""
ADOPTION_PAUSE_S = 0.2
AUTOSCALER_VARIABLES = {
    "RAY_enable_autoscaler_v2": "1",
    "RAY_CLOUD_INSTANCE_ID": HEAD,
    "RAY_NODE_TYPE_NAME": HEAD,
    "AUTOSCALER_UPDATE_INTERVAL_S": "1",
    "RAY_max_direct_call_object_size": "1000000",
}
"""For Ray's autoscaler and the head that it counts as a node. What Serve builds of an application
is an object of some 110 kB, which Serve keeps. Above the last figure it lies on the node that built
it, which then never counts as idle."""
_SOCKET_PATH_MAX = 107
_SOCKET_TAIL = "/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"


class RayFailed(Exception):
    """The cluster did not start, or a part is gone that it cannot live without."""


class RayCluster:
    """One head. Call `start()` before use, and `stop()` on every way out."""

    def __init__(self, settings: WorkersSettings) -> None:
        self._settings = settings
        self._ray = settings.ray
        self._temp_dir: Path | None = None
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
        up. A sound cluster that a killed launcher left is taken over as it is. Raises RayFailed,
        and leaves nothing behind then."""
        _check_socket_path(self._ray.temp_root / f"{FOLDER}{'x' * 8}" / INNER)
        if self._adopts():
            return self.file
        self._end_leftovers()
        self._settings.data.mkdir(parents=True, exist_ok=True)
        ports, self._claim = claim_ports(self._ray.ports_first, self._ray.ports_last)
        self._temp_dir = _private_folder(self._ray.temp_root)
        if self._settings.nodes:
            _write_node_types(self._settings, ports, self._temp_dir)
        with open(self._log_path, "wb") as log:
            self._head = subprocess.Popen(
                _command(self._settings, ports, self._temp_dir),
                env=_environment(self._settings, ports),
                cwd=self._temp_dir,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._file = _ray_file(
            self._ray, ports, self._temp_dir, session_of(self._head.pid), _digest(self._settings)
        )
        write_ray_file(self._settings.ray_file, self._file)
        try:
            self._await_dashboard(is_stopped)
        except BaseException:
            self.stop()
            raise
        return self._file

    def failure(self) -> str | None:
        """The reason to give up this cluster; None while it is sound."""
        code = None if self._head is None else self._head.poll()
        if code is not None:
            return f"the Ray head ended with code {code}"
        if not has_leader(self.file.session):
            return "the Ray head ended"
        host, port = self.file.gcs_address.rsplit(":", 1)
        try:
            socket.create_connection((host, int(port)), timeout=5.0).close()
        except OSError as refused:
            return f"Ray's control store does not answer: {refused}"
        return None

    def reap(self) -> None:
        """Collect processes of nodes that have ended, which are ours since their parents ended."""
        reap_children(but=None if self._head is None else self._head.pid)

    def stop(self) -> None:
        """End every process of the session and remove the temporary folder."""
        if self._file is not None:
            end_cluster(self._file, grace_s=self._ray.stop_grace_s)
            self._settings.ray_file.unlink(missing_ok=True)
        if self._head is not None:
            self._head.wait()
        if self._claim is not None:
            self._claim.close()
        if self._temp_dir is not None:
            _remove(self._temp_dir)
        if self._settings.nodes:
            remove_disks(self._settings.weights)

    def _adopts(self) -> bool:
        former = read_ray_file(self._settings.ray_file)
        if former is None or former.made_of != _digest(self._settings):
            return False
        self._file = former
        try:
            self._prove_sound()
        except RayFailed as failure:
            print(f"an earlier cluster is not taken over: {failure}", file=sys.stderr)
            self._file = None
            return False
        self._temp_dir = Path(former.temp_dir)
        print("took over the cluster of an earlier launcher", file=sys.stderr)
        return True

    def _prove_sound(self) -> None:
        for _ in range(ADOPTION_TRIES):
            if (failure := self.failure()) is not None:
                raise RayFailed(failure)
            if self._dashboard_answers():
                return
            time.sleep(ADOPTION_PAUSE_S)
        raise RayFailed("its dashboard does not answer")

    def _end_leftovers(self) -> None:
        former = read_ray_file(self._settings.ray_file)
        if former is not None:
            count = end_cluster(former, grace_s=self._ray.stop_grace_s)
            print(f"ended {count} processes of an earlier cluster", file=sys.stderr)
            _remove(Path(former.temp_dir))

    def _await_dashboard(self, is_stopped: Callable[[], bool]) -> None:
        step_s = 0.2
        for _ in range(round(self._ray.start_timeout_s / step_s)):
            assert self._head is not None
            if self._head.poll() is not None:
                raise RayFailed(
                    f"the Ray head ended with code {self._head.returncode}"
                    f"{self._last_words()}, see {self._log_path}"
                )
            if is_stopped():
                raise RayFailed("stopped while starting")
            if self._dashboard_answers():
                return
            time.sleep(step_s)
        bound = f"{self._ray.start_timeout_s:.0f} s (start_timeout_s of [ray])"
        raise RayFailed(f"no dashboard in {bound}, see {self._log_path}")

    def _last_words(self) -> str:
        lines = self._log_path.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1][:200]}" if lines else ""

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


def end_cluster(file: RayFile, *, grace_s: float) -> int:
    """End the head and then its nodes. Without a head nobody starts another one. Returns how many
    processes there were."""
    count = end_session(file.session, grace_s=grace_s)
    return count + NodesFolder(file.nodes_folder).end_all(grace_s=grace_s)


def _private_folder(root: Path) -> Path:
    """A private folder (0700) for Ray's folder, which Ray lets everybody write to (0777). Nobody
    can guess its name before it is made."""
    root.mkdir(parents=True, exist_ok=True)
    inner = Path(tempfile.mkdtemp(prefix=FOLDER, dir=root)) / INNER
    inner.mkdir()
    return inner


def _remove(temp_dir: Path) -> None:
    """Remove Ray's folder and ours around it, and never a folder of another kind."""
    folder = temp_dir.parent if temp_dir.name == INNER else temp_dir
    if folder.name.startswith(FOLDER):
        shutil.rmtree(folder, ignore_errors=True)


def _check_socket_path(temp_dir: Path) -> None:
    longest = len(str(temp_dir) + _SOCKET_TAIL)
    if longest > _SOCKET_PATH_MAX:
        raise RayFailed(f"[ray] temp_root is too long: sockets would need {longest} characters")


def _write_node_types(settings: WorkersSettings, ports: RayPorts, temp_dir: Path) -> None:
    """What Ray's autoscaler is to know. JSON is YAML."""
    ray, path = settings.ray, _node_types_path(temp_dir)
    path.parent.mkdir()
    config = cluster_config(
        settings.nodes,
        folder=str(path.parent),
        gcs_address=f"{ray.node_ip}:{ports.gcs}",
        node_ip=ray.node_ip,
        temp_dir=str(temp_dir),
        object_store_mb=ray.object_store_mb,
        idle_s=ray.node_idle_s,
        head_cpus=ray.num_cpus,
        started_ms=time.time_ns() // 1_000_000,  # noqa: TID251 composition root
        weights_folder=str(settings.weights),
    )
    path.write_text(json.dumps(config))


def _node_types_path(temp_dir: Path) -> Path:
    return nodes_folder(temp_dir) / "types.yaml"


def _command(settings: WorkersSettings, ports: RayPorts, temp_dir: Path) -> list[str]:
    ray = settings.ray
    options: dict[str, Any] = {
        "node_ip_address": ray.node_ip,
        "gcs_server_port": ports.gcs,
        "dashboard_host": ray.dashboard_host,
        "dashboard_port": ports.dashboard,
        "dashboard_agent_listen_port": ports.dashboard_agent,
        "metrics_agent_port": ports.dashboard_agent_grpc,
        "runtime_env_agent_port": ports.runtime_env_agent,
        "metrics_export_port": ports.metrics_export,
        "object_manager_port": ports.object_manager,
        "node_manager_port": ports.node_manager,
        "min_worker_port": ports.worker_first,
        "max_worker_port": ports.worker_last,
        "object_store_memory": ray.object_store_mb * 1_000_000,
        "num_cpus": ray.num_cpus,
        "num_gpus": ray.num_gpus,
        "spares": ray.spares,
        "temp_dir": str(temp_dir),
        "writer": _writer_options(settings, ports, temp_dir),
    }
    if settings.nodes:
        options["autoscaling_config"] = str(_node_types_path(temp_dir))
    return [sys.executable, "-m", "workers.ray.head", json.dumps(options)]


def _writer_options(settings: WorkersSettings, ports: RayPorts, temp_dir: Path) -> dict[str, Any]:
    """Those of `workers.writer`. The highest leader outlives the cluster."""
    return {
        "gcs_address": f"{settings.ray.node_ip}:{ports.gcs}",
        "host": settings.ray.node_ip,
        "port": ports.writer,
        "proxy_host": settings.ray.node_ip,
        "proxy_port": ports.serve_proxy,
        "leader_file": str((settings.data / "leader.json").absolute()),
        "nodes": str(nodes_folder(temp_dir)),
    }


def _environment(settings: WorkersSettings, ports: RayPorts) -> dict[str, str]:
    """Our environment without the Sluice secrets that workers do not need, and with what Ray Serve
    reads."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("SLUICE_", "RAY_"))}
    return variables | _own_variables(settings, ports)


def _own_variables(settings: WorkersSettings, ports: RayPorts) -> dict[str, str]:
    """The variables for Ray. A cluster of one machine is what Ray starts on macOS and Windows, and
    they ask for one on every system. It keeps 127.0.0.1 then, and binds every port to it. Else Ray
    takes the machine's public address, and binds to every interface, as with any other address."""
    ray = settings.ray
    variables = AUTOSCALER_VARIABLES if settings.nodes else {}
    return (
        replica_variables(settings)
        | variables
        | {
            "PYTHONPATH": os.pathsep.join(
                [str(PROJECT_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": settings.ray_auth_token.get_secret_value(),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": str(ports.ingress_first),
            "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": str(ports.ingress_last),
            "RAY_SERVE_PORT_QUARANTINE_S": str(ray.port_quarantine_s),
            "AUTOSCALER_METRIC_PORT": str(ports.autoscaler_metrics),
            "DASHBOARD_METRIC_PORT": str(ports.dashboard_metrics),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": str(int(ray.node_ip != LOOPBACK)),
            **_store_variables(settings),
        }
    )


def _store_variables(settings: WorkersSettings) -> dict[str, str]:
    """Of the store that nodes share which have none of their own."""
    gb = settings.ray.weights_gb
    folder = {wanted.FOLDER: str(settings.weights / wanted.SHARED)}
    return folder if gb is None else folder | {wanted.GB: str(gb)}


def _digest(settings: WorkersSettings) -> str:
    """A digest of everything that a cluster is started with, but for its addresses."""
    nowhere = RayPorts(*[0] * len(fields(RayPorts)))
    types = [type.model_dump(mode="json") for type in settings.nodes]
    parts = [_command(settings, nowhere, Path()), _own_variables(settings, nowhere), types]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _ray_file(
    ray: RaySettings, ports: RayPorts, temp_dir: Path, session: Session, made_of: str
) -> RayFile:
    return RayFile(
        dashboard_url=f"http://{ray.dashboard_host}:{ports.dashboard}",
        gcs_address=f"{ray.node_ip}:{ports.gcs}",
        node_ip=ray.node_ip,
        serve_proxy_port=ports.serve_proxy,
        ingress_ports=(ports.ingress_first, ports.ingress_last),
        temp_dir=str(temp_dir),
        session=session,
        made_of=made_of,
        writer_url=f"http://{ray.node_ip}:{ports.writer}",
    )
