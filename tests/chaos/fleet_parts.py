"""A whole Sluice with nodes on real raylets, and what may be killed or stopped there: a replica,
the raylet of a node, the head of the cluster, the watcher of a node's notices, the controller that
leads and the one that stands by.

Two spot zones have two nodes, with a replica of a simulated model on each: its texts are known and
cost this machine nothing.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple

import psutil

from gateway.supervisor.credentials import read_credentials
from gateway.supervisor.redis_server import redis_url
from tests.simulated_model import simulated_model
from tests.stack import Stack
from tests.stack_config import TIMES
from tests.stack_process import environment
from tests.workers.cluster import Part
from tests.workers.notices.metadata_server import metadata_server
from workers.controller.lease import EPOCH_KEY
from workers.nodes.folder import NodesFolder
from workers.ray.file import RayFile, read_ray_file
from workers.ray.session import members

MODEL, POOL = "played", "played-spot"
REPLICAS = 2
COMES_BACK_S = 240.0
STOPPED_S = (0.3, 2.0)
CONFIG = f"""{TIMES}{simulated_model(MODEL, context_tokens=2048, max_output_tokens=1024)}
[[pools]]
name = "{POOL}"
model = "{MODEL}"
variant = "fp16"
capacity_class = "spot"
engine = "simulated"
hardware = "h100"
speed = 0.25
initial_replicas = {REPLICAS}
min_replicas = {REPLICAS}
max_replicas = {REPLICAS}
idle_s = 3600.0
num_cpus = 1.0
max_ongoing = 64

[[prices]]
model = "{MODEL}"
input_usd_per_mtok = "1"
output_usd_per_mtok = "3"

[ray]
spares = 0
"""
NODES = """
[[nodes]]
name = "spot-{zone}"
market = "spot"
zone = "{zone}"
cpus = 1
max = 2
notice_s = 30.0
notices = "aws"
notices_url = "{url}"
"""


class Kind(StrEnum):
    """Of what harm is done to."""

    REPLICA = "replica"
    RAYLET = "raylet"
    HEAD = "head"
    WATCHER = "watcher"
    CONTROLLER = "controller"
    STANDBY = "standby"


@dataclass(frozen=True, slots=True)
class Harm:
    """`is_kill`: by SIGKILL. Else it stands still for a while."""

    kind: Kind
    is_kill: bool

    def __str__(self) -> str:
        return f"{self.kind} {'killed' if self.is_kill else 'stopped'}"


class Stalled(NamedTuple):
    replica: str
    process: psutil.Process


@dataclass
class FleetParts:
    """`second` is the controller that `sluice up` does not know."""

    stack: Stack
    second: Part = field(init=False)

    def __post_init__(self) -> None:
        self.second = self._start_second()

    # --- harm -------------------------------------------------------------------------------------

    def harm(self, harm: Harm, rng: Random) -> None:
        """Do it to one process, and start again what nobody else starts."""
        pid = self._until(lambda: self._harmed(harm, rng), str(harm))
        print(f"{time.time():.2f} {harm}: {pid}", flush=True)
        if not self.second.runs:
            self.second = self._start_second()

    def _harmed(self, harm: Harm, rng: Random) -> int | None:
        """The process that it was done to. None where there is none now."""
        pids = PIDS[harm.kind](self)
        if not pids:
            return None
        pid = rng.choice(pids)
        try:
            os.kill(pid, signal.SIGKILL if harm.is_kill else signal.SIGSTOP)
        except ProcessLookupError:
            return None
        if not harm.is_kill:
            time.sleep(rng.uniform(*STOPPED_S))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return pid

    def stall(self) -> Stalled:
        """A replica with several calls, by its own word, which stands still until it is resumed."""
        return self._until(self._stalled, "a busy replica")  # type: ignore[no-any-return]

    def _stalled(self) -> Stalled | None:
        for each in self.stack.replicas(POOL, "WARM"):
            if self.stack.stats_of(each)["running"] > 1:
                stalled = Stalled(each["id"], psutil.Process(each["pid"]))
                stalled.process.suspend()
                return stalled
        return None

    def _busiest_replica(self) -> list[int]:
        """The process of the warm replica with most calls, while it has one."""
        busy = [each for each in self.stack.replicas(POOL, "WARM") if each["running"]]
        return [max(busy, key=lambda each: each["running"])["pid"]] if busy else []

    def _raylets(self) -> list[int]:
        """Of nodes with a replica that has a call."""
        busy = {each["node"] for each in self.stack.replicas(POOL, "WARM") if each["running"]}
        return [node["pid"] for node in self.nodes() if node["id"] in busy]

    def _control_store(self) -> list[int]:
        """The head is lost with it."""
        session = self._ray_file.session
        return [each.pid for each in members(session) if each.name() == "gcs_server"]

    def _watchers(self) -> list[int]:
        return [each.pid for each in self.node_processes() if "workers.notices" in _line(each)]

    def _leading(self) -> list[int]:
        return self._controllers()[0]

    def _standing_by(self) -> list[int]:
        return self._controllers()[1]

    def _controllers(self) -> tuple[list[int], list[int]]:
        """Who leads, by the epoch that each says in its log to lead with, and who does not."""
        with self.stack.redis() as redis:
            epoch = int(redis.hget(EPOCH_KEY, "epoch") or 0)
        line = f"leading with epoch {epoch}\n"
        ours = self.stack.data / "logs" / "controller.log"
        by_log = {ours: self.stack.pids()["controller"], self.second.log: self.second.pid}
        leading = [pid for log, pid in by_log.items() if line in log.read_text(errors="replace")]
        others = [pid for pid in by_log.values() if leading and pid not in leading]
        return leading, others

    # --- what comes back --------------------------------------------------------------------------

    def until_whole(self) -> None:
        """All six are there, and no node leaves any more."""
        self._until(self._is_whole, "a whole fleet")

    def _is_whole(self) -> bool:
        warm = self.stack.replicas(POOL, "WARM")
        nodes = {node["id"] for node in self.nodes() if node["state"] == "ready"}
        return (
            len(warm) == len(nodes) == len({each["node"] for each in warm} & nodes) == REPLICAS
            and len(self._watchers()) == REPLICAS
            and all(self._controllers())
        )

    def _start_second(self) -> Part:
        credentials = read_credentials(self.stack.data)
        assert credentials is not None
        env = environment() | {
            "SLUICE_CONFIG": str(self.stack.config),
            "SLUICE_DATA": str(self.stack.data),
            "SLUICE_REDIS_URL": redis_url(self.stack.data),
            "SLUICE_SQL_URL": self.sql_url,
        }
        log = self.stack.data / f"second-{time.monotonic_ns()}.log"
        part = Part("workers.controller", env | credentials.environment, log)
        part.await_ready()
        return part

    def end_second(self) -> None:
        self.second.signal(signal.SIGCONT)
        self.second.end()

    # --- looking ----------------------------------------------------------------------------------

    @property
    def sql_url(self) -> str:
        return f"sqlite:///{self.stack.data / 'sluice.db'}"

    @property
    def _ray_file(self) -> RayFile:
        file = read_ray_file(self.stack.data / "ray.json")
        assert file is not None
        return file

    def nodes(self) -> list[dict[str, Any]]:
        """Those that run."""
        rows: list[dict[str, Any]] = self.stack.admin("GET", "/nodes")["data"]
        return [row for row in rows if row["state"] in ("launching", "ready", "draining")]

    def node_processes(self) -> list[psutil.Process]:
        nodes = NodesFolder(self._ray_file.nodes_folder).nodes()
        sessions = [node.process.session for node in nodes if node.process is not None]
        return [process for session in sessions for process in members(session)]

    def _until(self, look: Callable[[], Any], what: str) -> Any:
        return self.stack.wait_until(look, COMES_BACK_S, lambda: (what, self.stack.fleet()))


PIDS: dict[Kind, Callable[[FleetParts], list[int]]] = {
    Kind.REPLICA: FleetParts._busiest_replica,
    Kind.RAYLET: FleetParts._raylets,
    Kind.HEAD: FleetParts._control_store,
    Kind.WATCHER: FleetParts._watchers,
    Kind.CONTROLLER: FleetParts._leading,
    Kind.STANDBY: FleetParts._standing_by,
}


@contextmanager
def fleet_parts() -> Iterator[FleetParts]:
    """They run, with every replica warm, and are gone afterwards."""
    with metadata_server() as metadata:
        zones = "".join(NODES.format(zone=zone, url=metadata.url) for zone in "ab")
        with Stack(CONFIG + zones) as stack:
            parts = FleetParts(stack)
            try:
                parts.until_whole()
                yield parts
            finally:
                parts.end_second()
                left = parts.node_processes()
                assert stack.stop() == []
        _, alive = psutil.wait_procs(left, timeout=COMES_BACK_S)
        assert not alive, alive


def _line(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""
