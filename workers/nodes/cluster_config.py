"""The node types as the cluster configuration of Ray's own autoscaler. Pure."""

from collections.abc import Sequence
from typing import Any

from workers.nodes.node_type import HEAD, NodeType

PROVIDER = "workers.nodes.provider.MachineNodes"
TRIES_AT_ONCE = 100.0
"""Ray's `upscaling_speed`: as many nodes at once as are needed."""


def cluster_config(
    types: Sequence[NodeType],
    *,
    folder: str,
    gcs_address: str,
    node_ip: str,
    temp_dir: str,
    object_store_mb: int,
    idle_s: float,
    head_cpus: int,
    started_ms: int,
    weights_folder: str,
) -> dict[str, Any]:
    """The document that Ray's monitor reads. `started_ms`: when the traces of capacity begin."""
    of_types = {type.name: _node_type(type) for type in types}
    head = {"resources": {"CPU": head_cpus}, "node_config": {}, "min_workers": 0, "max_workers": 0}
    return {
        "cluster_name": "sluice",
        "max_workers": sum(type.max for type in types),
        "upscaling_speed": TRIES_AT_ONCE,
        "idle_timeout_minutes": idle_s / 60,
        "head_node_type": HEAD,
        "available_node_types": {HEAD: head} | of_types,
        "provider": {
            "type": "external",
            "module": PROVIDER,
            "disable_node_updaters": True,
            "folder": folder,
            "gcs_address": gcs_address,
            "node_ip": node_ip,
            "temp_dir": temp_dir,
            "object_store_mb": object_store_mb,
            "started_ms": started_ms,
            "weights_folder": weights_folder,
            "types": [type.model_dump(mode="json") for type in types],
        },
        "auth": {},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
        "initialization_commands": [],
        "setup_commands": [],
        "head_setup_commands": [],
        "worker_setup_commands": [],
        "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }


def _node_type(type: NodeType) -> dict[str, Any]:
    return {
        "resources": type.resources,
        "labels": type.labels,
        "node_config": {},
        "min_workers": type.min,
        "max_workers": type.max,
    }
