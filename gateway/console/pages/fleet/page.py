"""`/console/fleet`: nodes by zone and market, what they cost, and losses and moves of an hour."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from billing import queries
from billing.queries import MovedCall
from gateway.console.breakers import BreakerRow, breaker_rows
from gateway.console.context import ConsoleContext, context_of
from gateway.console.formatting import DisplayTime, Money, instant, money
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.fleet.events import HOUR_US, Hour, last_hour
from gateway.console.pages.fleet.places import (
    HOUR_S,
    FleetCost,
    PlaceView,
    cost_of_nodes,
    cost_of_pools,
    places_of_nodes,
    places_of_pools,
)
from gateway.console.render import guarded, page
from workers.controller.fleet_publisher import NodeEntry
from workers.nodes.node_type import ENDED, NodeState

router = APIRouter(prefix="/console/fleet", include_in_schema=False)

MOVES_SHOWN = 50


@dataclass(frozen=True, slots=True)
class NodeView:
    id: str
    type: str
    state: str
    market: str
    zone: str
    replicas: int
    per_hour: Money
    launched: DisplayTime
    deadline: DisplayTime | None
    why: str


@dataclass(frozen=True, slots=True)
class FleetPage:
    at: DisplayTime
    has_nodes: bool
    """Whether nodes are declared. Else all replicas run on one."""
    cost: FleetCost
    places: tuple[PlaceView, ...]
    nodes: tuple[NodeView, ...]
    hour: Hour
    left_alone: tuple[BreakerRow, ...]
    """What calls leave alone just now."""
    refused_retries: int
    """Calls of this gateway that got no further attempt, since it started."""
    is_booked: bool
    """Whether the ledger's database answers. Else no moves are shown."""


@router.get("")
async def fleet(request: Request) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return page("fleet.html", view=await _look(context_of(request)))


@router.get("/live")
async def live(request: Request) -> Response:
    """The part of the page that changes, for the script that puts it in place."""
    if not await is_signed_in(request):
        return guarded(Response(status_code=401))
    return page("fleet_live.html", view=await _look(context_of(request)))


async def _look(desk: ConsoleContext) -> FleetPage:
    parts, now_us = desk.parts, desk.now_us
    nodes, types = parts.fleet.nodes, parts.settings.nodes
    moves = await _moves(desk)
    left_alone = breaker_rows(parts.breakers.by_scope, now_us / 1e6)
    refused_retries = parts.observed.tally.refused_retries.total()
    return await asyncio.to_thread(
        lambda: FleetPage(
            at=instant(now_us, now_us),
            has_nodes=bool(types),
            cost=cost_of_nodes(nodes, types) if types else cost_of_pools(parts.fleet.snapshot()),
            places=places_of_nodes(nodes) if types else places_of_pools(parts.fleet.snapshot()),
            nodes=tuple(
                _node(node, now_us) for node in nodes if NodeState(node.state) not in ENDED
            ),
            left_alone=left_alone,
            refused_retries=refused_retries,
            hour=last_hour(nodes, moves or (), now_us=now_us),
            is_booked=moves is not None,
        )
    )


async def _moves(desk: ConsoleContext) -> Sequence[MovedCall] | None:
    """None while the ledger's database does not answer."""
    now_us = desk.now_us
    try:
        return await desk.moves.get(
            MOVES_SHOWN,
            lambda: queries.moves(desk.parts.ledger, now_us - HOUR_US, now_us, MOVES_SHOWN),
        )
    except SQLAlchemyError:
        return None


def _node(node: NodeEntry, now_us: int) -> NodeView:
    deadline_ms = node.deadline_ms
    return NodeView(
        id=node.id,
        type=node.type,
        state=node.state,
        market=node.market.replace("_", "-"),
        zone=node.zone or "",
        replicas=node.replicas,
        per_hour=money(HOUR_S * node.cost_nanousd_per_s),
        launched=instant(node.launched_ms * 1000, now_us),
        deadline=None if deadline_ms is None else instant(deadline_ms * 1000, now_us),
        why=node.why or "",
    )
