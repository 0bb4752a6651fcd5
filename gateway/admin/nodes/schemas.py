"""Nodes as the controller published them."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from gateway.api.schemas import Answer, At, Body, Usd
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import DRAIN_S, Market, NodeState

DEADLINE_S_MAX = 86_400


class NodeAnswer(Answer):
    object: Literal["node"] = "node"
    id: str
    type: str
    market: Market
    zone: str | None
    state: NodeState
    cost_nanousd_per_s: NonNegativeInt
    cost_usd_per_s: Usd
    replicas: NonNegativeInt
    launched_at: At
    deadline: At | None = Field(description="when it ends; null: nothing ends it")
    ended_at: At | None = Field(description="null: it runs")
    why: str | None = Field(description="what ends it, or ended it")
    pid: int | None = Field(description="of its raylet, where it is a process of this machine")
    weights: list[str] = Field(description="checkpoints that it has fetched, by their ids")

    @classmethod
    def of(cls, node: NodeEntry) -> "NodeAnswer":
        return cls(
            id=node.id,
            type=node.type,
            market=node.market,
            zone=node.zone,
            state=NodeState(node.state),
            cost_nanousd_per_s=node.cost_nanousd_per_s,
            cost_usd_per_s=node.cost_nanousd_per_s,
            replicas=node.replicas,
            launched_at=node.launched_ms * 1000,
            deadline=None if node.deadline_ms is None else node.deadline_ms * 1000,
            ended_at=None if node.ended_ms is None else node.ended_ms * 1000,
            why=node.why,
            pid=node.pid,
            weights=list(node.weights),
        )


class DrainBody(Body):
    deadline_s: float = Field(
        DRAIN_S,
        strict=True,
        gt=0,
        le=DEADLINE_S_MAX,
        description="how long what runs there may go on",
    )
