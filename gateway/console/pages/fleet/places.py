"""The fleet by zone and market, and what it costs now against the same on demand. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.console.formatting import Money, count, money, plural
from routing.types import CapacityClass, FleetSnapshot, PoolState
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import ENDED, NodeState, NodeType

HOUR_S = 3600
STATES = (NodeState.READY, NodeState.LAUNCHING, NodeState.DRAINING)


@dataclass(frozen=True, slots=True)
class PlaceView:
    """What runs in one zone and is bought in one way."""

    zone: str
    market: str
    nodes: str
    replicas: str
    per_hour: Money


@dataclass(frozen=True, slots=True)
class FleetCost:
    """`on_demand` is None where some of it cannot be had on demand. `saved` is in percent."""

    now: Money
    on_demand: Money | None
    saved: int


def places_of_nodes(nodes: Sequence[NodeEntry]) -> tuple[PlaceView, ...]:
    places: defaultdict[tuple[str, str], list[NodeEntry]] = defaultdict(list)
    for node in _alive(nodes):
        places[node.zone or "", node.market].append(node)
    return tuple(
        PlaceView(
            zone=zone,
            market=_market(market),
            nodes=_states(Counter(node.state for node in there)),
            replicas=count(sum(node.replicas for node in there)),
            per_hour=money(HOUR_S * sum(node.cost_nanousd_per_s for node in there)),
        )
        for (zone, market), there in sorted(places.items())
    )


def places_of_pools(fleet: FleetSnapshot) -> tuple[PlaceView, ...]:
    """Where no nodes are declared, what a pool says of itself."""
    places: defaultdict[tuple[str, str], list[PoolState]] = defaultdict(list)
    for state in _own(fleet):
        places[state.pool.zone or "", state.pool.capacity_class].append(state)
    return tuple(
        PlaceView(
            zone=zone,
            market=_market(market),
            nodes="",
            replicas=count(sum(len(state.replicas) for state in there)),
            per_hour=money(HOUR_S * sum(_nanousd_per_s(state) for state in there)),
        )
        for (zone, market), there in sorted(places.items())
    )


def cost_of_nodes(nodes: Sequence[NodeEntry], types: Sequence[NodeType]) -> FleetCost:
    """Each node costs on demand what the cheapest type costs that is bought so and has its
    accelerator, for as many GPUs, or CPUs where it has none."""
    by_name = {type.name: type for type in types}
    alive = [node for node in _alive(nodes) if node.type in by_name]
    dear = [_on_demand(by_name[node.type], types) for node in alive]
    return _cost([node.cost_nanousd_per_s for node in alive], dear)


def cost_of_pools(fleet: FleetSnapshot) -> FleetCost:
    """Each replica costs on demand what the cheapest such pool of its variant costs."""
    cheapest: dict[tuple[str, str], int] = {}
    for state in _own(fleet):
        pool = state.pool
        if pool.capacity_class is CapacityClass.ON_DEMAND:
            known = cheapest.get((pool.model, pool.variant), pool.cost_nanousd_per_s)
            cheapest[pool.model, pool.variant] = min(known, pool.cost_nanousd_per_s)
    running = [state for state in _own(fleet) if state.replicas]
    dear = [
        None if each is None else each * len(state.replicas)
        for state in running
        for each in [cheapest.get((state.pool.model, state.pool.variant))]
    ]
    return _cost([_nanousd_per_s(state) for state in running], dear)


def _on_demand(type: NodeType, types: Sequence[NodeType]) -> float | None:
    """USD of a node of such a size, in nano a second."""
    prices = [
        other.cost_nanousd_per_s / _size(other)
        for other in types
        if other.market == "on_demand"
        and other.accelerator == type.accelerator
        and bool(other.gpus) == bool(type.gpus)
    ]
    return min(prices) * _size(type) if prices else None


def _size(type: NodeType) -> int:
    return type.gpus or type.cpus


def _cost(now: Sequence[int], on_demand: Sequence[float | None]) -> FleetCost:
    known = [each for each in on_demand if each is not None]
    if len(known) < len(on_demand) or not known or not sum(known):
        return FleetCost(money(HOUR_S * sum(now)), None, 0)
    return FleetCost(
        money(HOUR_S * sum(now)),
        money(HOUR_S * round(sum(known))),
        round(100 * (1 - sum(now) / sum(known))),
    )


def _own(fleet: FleetSnapshot) -> list[PoolState]:
    return [state for state in fleet.pools if not state.pool.is_external]


def _nanousd_per_s(state: PoolState) -> int:
    return state.pool.cost_nanousd_per_s * len(state.replicas)


def _alive(nodes: Sequence[NodeEntry]) -> list[NodeEntry]:
    return [node for node in nodes if NodeState(node.state) not in ENDED]


def _states(states: Mapping[str, int]) -> str:
    words = [f"{count(states[state])} {state}" for state in STATES if states.get(state)]
    return ", ".join(words) or plural(0, "node")


def _market(market: str) -> str:
    return market.replace("_", "-")
