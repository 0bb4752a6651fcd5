"""A raylet with its agents, as one node of a cluster that runs. Ray's own `Node` is private, so it
is pinned with Ray."""

import time
from contextlib import suppress
from typing import Any

from ray._private import services
from ray._private.node import Node
from ray._private.parameter import RayParams
from ray._private.resource_isolation_config import ResourceIsolationConfig
from ray.core.generated import autoscaler_pb2

LOOK_EVERY_S = 0.1
PREEMPTION = "DRAIN_NODE_REASON_PREEMPTION"


class MachineRaylet(Node):  # type: ignore[misc]  # Ray has no types
    """It has registered when it is made, or its raylet has ended."""

    def start_ray_processes(self) -> None:
        """On a busy machine a raylet takes longer to register than the half a minute for which Ray
        waits."""
        super().start_ray_processes()
        while not self._is_known() and self.exit_code() is None:
            time.sleep(LOOK_EVERY_S)

    @property
    def raylet(self) -> Any:
        """Its process."""
        return self.all_processes["raylet"][0].process

    def exit_code(self) -> int | None:
        code: int | None = self.raylet.poll()
        return code

    def drain(self, why: str, deadline_ms: int) -> str:
        """Tell Ray what comes: no new replica here, and others in place of those that are. Returns
        why it refuses, if so."""
        reason = autoscaler_pb2.DrainNodeReason.Value(PREEMPTION)
        accepted, why_not = self.get_gcs_client().drain_node(self.node_id, reason, why, deadline_ms)
        return "" if accepted else str(why_not)

    def _is_known(self) -> bool:
        with suppress(RuntimeError):
            return bool(services.get_node(self.gcs_address, self._node_id))
        return False


def start_raylet(
    *,
    name: str,
    gcs_address: str,
    node_ip: str,
    temp_dir: str,
    object_store_mb: int,
    resources: dict[str, float],
    labels: dict[str, str],
    worker_path: str | None,
) -> MachineRaylet:
    """`name`: of its sockets, as Ray gives two raylets that start at once the same ones. Every port
    is one that the system chooses, as several nodes share one address."""
    sockets = f"{temp_dir}/sockets/{name}"
    params = RayParams(
        raylet_socket_name=f"{sockets}.raylet",
        plasma_store_socket_name=f"{sockets}.plasma",
        gcs_address=gcs_address,
        node_ip_address=node_ip,
        temp_dir=temp_dir,
        num_cpus=resources.get("CPU", 0),
        num_gpus=resources.get("GPU", 0),
        memory=resources.get("memory"),
        labels=labels,
        object_store_memory=object_store_mb * 1_000_000,
        min_worker_port=0,
        max_worker_port=0,
        dashboard_agent_listen_port=0,
        include_log_monitor=False,
        worker_path=worker_path,
        resource_isolation_config=ResourceIsolationConfig(enable_resource_isolation=False),
    )
    return MachineRaylet(params, head=False, shutdown_at_exit=False, spawn_reaper=False)
