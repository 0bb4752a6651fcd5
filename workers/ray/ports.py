"""Free ports for one Ray cluster, so that several run side by side on one machine.

A cluster takes a block of consecutive ports. A socket claims the first port: it is bound but never
listens, and is held for the cluster's life. So two launchers never choose the same block. Every
other port of the block was free when the block was chosen.
"""

import socket
from contextlib import ExitStack
from dataclasses import dataclass

_INGRESS = 100
_WORKERS = 200
_FIXED = 13
BLOCK = _FIXED + 1 + _INGRESS + _WORKERS


class NoFreePorts(Exception):
    """Every block in the configured range is in use."""


@dataclass(frozen=True, slots=True)
class RayPorts:
    """The ports of each part of one cluster. Ranges are inclusive."""

    gcs: int
    client_server: int
    dashboard: int
    dashboard_agent: int
    dashboard_agent_grpc: int
    runtime_env_agent: int
    metrics_export: int
    autoscaler_metrics: int
    dashboard_metrics: int
    object_manager: int
    node_manager: int
    serve_proxy: int
    writer: int
    ingress_first: int
    ingress_last: int
    worker_first: int
    worker_last: int


def claim_ports(first: int, last: int) -> tuple[RayPorts, socket.socket]:
    """The first wholly free block, and the socket that claims it until the socket is closed."""
    for start in range(first, last - BLOCK + 2, BLOCK):
        claim = _claim(start)
        if claim is None:
            continue
        if _all_free(range(start + 1, start + BLOCK)):
            return _layout(start + 1), claim
        claim.close()
    raise NoFreePorts(f"no {BLOCK} free ports in a row between {first} and {last}")


def _claim(port: int) -> socket.socket | None:
    claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        claim.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return None
    return claim


def _all_free(ports: range) -> bool:
    with ExitStack() as probes:
        for port in ports:
            probe = probes.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            # As servers bind: connections in TIME_WAIT of an earlier cluster do not matter.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                return False
    return True


def _layout(start: int) -> RayPorts:
    ingress = start + _FIXED
    workers = ingress + _INGRESS
    return RayPorts(
        gcs=start,
        client_server=start + 1,
        dashboard=start + 2,
        dashboard_agent=start + 3,
        dashboard_agent_grpc=start + 4,
        runtime_env_agent=start + 5,
        metrics_export=start + 6,
        autoscaler_metrics=start + 7,
        dashboard_metrics=start + 8,
        object_manager=start + 9,
        node_manager=start + 10,
        serve_proxy=start + 11,
        writer=start + 12,
        ingress_first=ingress,
        ingress_last=workers - 1,
        worker_first=workers,
        worker_last=workers + _WORKERS - 1,
    )
