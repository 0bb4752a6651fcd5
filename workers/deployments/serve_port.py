"""The port that Ray Serve opens in each replica for calls from other deployments.

No deployment calls another here, and Serve would open it on every interface, with a number that no
firewall can know beforehand. So it is opened on the node's own address. Ray Serve has no setting
for that; `tests/journeys/test_sockets.py` notices if a version does it otherwise.
"""

from __future__ import annotations

from typing import Any

import ray.util
from ray._common.network_utils import build_address
from ray._common.tls_utils import add_port_to_grpc_server
from ray.serve._private import replica


def bind_to_node() -> None:
    """Bind that port of the replica in this process to the node. Call it before Serve opens the
    port."""
    replica.add_port_to_grpc_server = _add_port_on_node


def _add_port_on_node(server: Any, address: str) -> int:
    port: int = add_port_to_grpc_server(server, build_address(ray.util.get_node_ip_address(), 0))
    return port
