"""The ports that Ray Serve opens in each replica: for HTTP, and for calls from other deployments.

Both are opened on the node's own address. Serve would open the first one on the address of its
proxies, which on another node is another machine's, or its loopback. It would open the second one
on every interface, with a number that no firewall can know beforehand, and no deployment calls
another here. Ray Serve has no setting for either; `tests/journeys/test_sockets.py` notices if a
version does it otherwise.
"""

from __future__ import annotations

from typing import Any

import ray.util
from ray._common.network_utils import build_address
from ray._common.tls_utils import add_port_to_grpc_server
from ray.serve._private import replica
from ray.serve._private.http_util import start_asgi_http_server


def bind_to_node() -> None:
    """Bind those ports of the replica in this process to the node. Call it before Serve opens
    them."""
    replica.add_port_to_grpc_server = _add_port_on_node
    replica.start_asgi_http_server = _serve_http_on_node


def _add_port_on_node(server: Any, address: str) -> int:
    port: int = add_port_to_grpc_server(server, build_address(ray.util.get_node_ip_address(), 0))
    return port


def _serve_http_on_node(app: Any, options: Any, **rest: Any) -> Any:
    here = options.model_copy(update={"host": ray.util.get_node_ip_address()})
    return start_asgi_http_server(app, here, **rest)
