"""`/admin/v1/nodes`: the nodes of `[[nodes]]`, and taking one away."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request

from gateway.admin.nodes.schemas import DrainBody, NodeAnswer
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, Paged, Source, read_page
from gateway.api.schemas import Page
from gateway.errors import ApiError
from workers.controller.drains import ask_to_drain
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import ENDED, NodeState

router = APIRouter(prefix="/nodes", tags=["pools"])


@router.get("", response_model=Page[NodeAnswer])
async def list_nodes(request: Request, page: Paged) -> Any:
    """Nodes that run, and the last ones that ended, the oldest first."""
    nodes = parts_of(request).fleet.nodes
    return read_page(page, Source((int, str), lambda key, limit: _behind(nodes, key, limit)))


@router.post("/{id}/drain", response_model=NodeAnswer, status_code=202)
async def drain_node(request: Request, id: str, body: DrainBody | None = None) -> Any:
    """No new call goes there, other replicas start elsewhere, and the node ends when nothing runs
    there any more, at the deadline at last."""
    parts = parts_of(request)
    node = next((node for node in parts.fleet.nodes if node.id == id), None)
    if node is None:
        raise ApiError(404, f"There is no '{id}'.", code="not_found")
    if NodeState(node.state) in ENDED:
        raise ApiError(409, f"'{id}' has ended already.", code="conflict")
    await ask_to_drain(parts.redis, id, (body or DrainBody()).deadline_s)
    return NodeAnswer.of(node)


def _behind(
    nodes: Sequence[NodeEntry], key: Key | None, limit: int
) -> list[tuple[Key, NodeAnswer]]:
    rows = sorted(((node.launched_ms, node.id), node) for node in nodes)
    return [(at, NodeAnswer.of(node)) for at, node in rows if key is None or at > key][:limit]
