"""What is counted and watched of this gateway, for whoever looks from outside."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from billing.limits.breaker import Breaker
from billing.spool.segments import unconfirmed_bytes
from gateway.catalog.fleet import PublishedPool
from gateway.metrics.lag import LoopLag
from gateway.metrics.tally import Tally
from gateway.upstream.faults import Faults
from routing.health import breaker as health_breaker
from routing.health.breaker import BreakerState
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import ENDED, NodeState


@dataclass(frozen=True, slots=True)
class Observer:
    lag: LoopLag
    breaker: Breaker
    spool_root: Path
    gateway_id: str
    faults: Faults
    tally: Tally = field(default_factory=Tally)

    def spool_bytes(self) -> int:
        """Of segments that the ledger has yet to confirm. Looks at the disk."""
        return unconfirmed_bytes(self.spool_root, self.gateway_id)


def by_state(pools: Sequence[PublishedPool]) -> Mapping[tuple[str, str], int]:
    """Replicas as the controller published them, by pool and state."""
    return Counter((pool.name, replica.state.value) for pool in pools for replica in pool.replicas)


def nodes_by_state(nodes: Sequence[NodeEntry]) -> Mapping[tuple[str, str, str, str], int]:
    """Nodes that run, by type, market, zone and state; of those that ended nobody counts more than
    the last ones."""
    running = [node for node in nodes if NodeState(node.state) not in ENDED]
    return Counter((node.type, node.market, node.zone or "", node.state) for node in running)


def breaker_states(
    breakers: Mapping[str, health_breaker.Breaker], now_s: float
) -> Mapping[str, int]:
    """How many breakers are in each state but closed."""
    states = Counter(breaker.state(now_s) for breaker in breakers.values())
    return {each.value: states[each] for each in BreakerState if each is not BreakerState.CLOSED}
