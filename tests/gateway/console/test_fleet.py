"""The page of the fleet: places, prices against on demand, and what happened in an hour."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from billing import queries
from billing.queries import MovedCall
from gateway.console.pages.fleet.events import HOUR_US, last_hour
from gateway.console.pages.fleet.places import cost_of_nodes, cost_of_pools, places_of_nodes
from tests.gateway.console.test_pages import browser, sign_in
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer
from workers.controller.fleet_publisher import FleetPublisher, NodeEntry
from workers.nodes.node_type import NodeState, NodeType

NOW_US = 1_790_000_000_000_000
BASE = NodeType(name="base", market="reserved", zone="a", cpus=4, cost_nanousd_per_s=20_000)
SPOT = NodeType(name="spot", market="spot", zone="b", cpus=4, cost_nanousd_per_s=7_000)
BRIDGE = NodeType(name="bridge", market="on_demand", zone="a", cpus=8, cost_nanousd_per_s=56_000)
GPU = NodeType(name="gpu", market="spot", zone="b", cpus=8, gpus=1, cost_nanousd_per_s=90_000)


def node(
    type: NodeType, n: int, state: str = "ready", *, age_s: int = 600, ended_s: int | None = None
) -> NodeEntry:
    return NodeEntry(
        id=f"{type.name}-{n}",
        type=type.name,
        market=type.market,
        zone=type.zone,
        state=state,
        cost_nanousd_per_s=type.cost_nanousd_per_s,
        replicas=0 if state in ("lost", "gone") else 2,
        launched_ms=NOW_US // 1000 - age_s * 1000,
        ended_ms=None if ended_s is None else NOW_US // 1000 - ended_s * 1000,
        why="spot capacity in b was taken away" if state == "lost" else None,
    )


def test_places_count_what_runs() -> None:
    nodes = [node(BASE, 1), node(SPOT, 1), node(SPOT, 2, "draining"), node(SPOT, 3, "lost")]
    base, spot = places_of_nodes(nodes)
    assert (base.zone, base.market, base.nodes, base.replicas) == ("a", "reserved", "1 ready", "2")
    assert (spot.zone, spot.nodes, spot.replicas) == ("b", "1 ready, 1 draining", "4")
    assert spot.per_hour.text == "0.0504"


def test_cost_is_compared_with_the_same_size_on_demand() -> None:
    """Four CPUs on demand are half of a node of eight: 28,000 nano-USD a second."""
    cost = cost_of_nodes(
        [node(BASE, 1), node(SPOT, 1), node(SPOT, 2, "lost")], [BASE, SPOT, BRIDGE]
    )
    assert cost.now.text == "0.0972"
    assert cost.on_demand is not None
    assert cost.on_demand.text == "0.2016"
    assert cost.saved == 52


@pytest.mark.parametrize("types", [(BASE, SPOT), (BASE, SPOT, GPU, BRIDGE)])
def test_cost_is_not_compared_with_what_is_not_sold(types: tuple[NodeType, ...]) -> None:
    """No type is sold on demand, or none that has a GPU."""
    nodes = [node(types[-1] if types[-1] is not BRIDGE else GPU, 1), node(SPOT, 1)]
    cost = cost_of_nodes(nodes, types)
    assert (cost.on_demand, cost.saved) == (None, 0)
    assert cost.now.text != "0.00"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 7_000), st.integers(0, 7_000), st.sampled_from([*NodeState]).map(str)
        ),
        max_size=50,
    ),
    st.lists(st.integers(0, HOUR_US - 1), max_size=20),
)
def test_lanes_stay_inside_of_the_hour(lives: list[tuple[int, int, str]], moved: list[int]) -> None:
    nodes = [
        node(SPOT, n, state, age_s=max(ages), ended_s=min(ages) if state in "lost gone" else None)
        for n, (*ages, state) in enumerate(lives)
    ]
    moves = [MovedCall("req_1", "small-spot", NOW_US - HOUR_US + at) for at in moved]
    hour = last_hour(nodes, moves, now_us=NOW_US)
    for lane in hour.lanes:
        for span in lane.spans:
            assert span.x >= 0
            assert span.x + span.width <= 100 + 1e-6
            assert span.width > 0
    assert len(hour.moves) == len(moves)
    ended = [each for each in nodes if each.ended_ms is not None]
    long_ago = [each for each in ended if (each.ended_ms or 0) * 1000 < NOW_US - HOUR_US]
    assert not {each.id for each in long_ago} & {lane.name for lane in hour.lanes}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def look(one: Edge, path: str = "/console/fleet") -> str:
    async with browser(one) as client:
        await sign_in(client)
        answer = await client.get(path)
        assert answer.status_code == 200
        return str(answer.text)


async def test_page_without_nodes_shows_what_pools_say(one: Edge) -> None:
    page = await look(one)
    assert "No <code>[[nodes]]</code> are declared" in page
    assert "reserved" in page and "No answer was moved." in page
    assert cost_of_pools(one.parts.fleet.snapshot()).now.text in page


async def test_page_lists_nodes_and_lanes(one: Edge) -> None:
    settings = one.parts.settings.model_copy(update={"nodes": (BASE, SPOT, BRIDGE)})
    object.__setattr__(one.parts, "settings", settings)
    now_ms = round(one.parts.outside.clock() * 1000)
    nodes = tuple(
        NodeEntry(
            *(f"spot-{n}", "spot", "spot", "b", state, 7_000, 1, now_ms - 60_000),
            ended_ms=now_ms if state == "lost" else None,
            why="exit code -9" if state == "lost" else None,
        )
        for n, state in enumerate(("ready", "lost"))
    )
    publisher = FleetPublisher(one.redis, controller_id="c")
    await publisher.publish((), at_ms=now_ms, nodes=nodes)
    await one.parts.fleet.refresh()
    page = await look(one, "/console/fleet/live")
    assert re.findall(r'<tr role="row" id="node-([^"]+)"', page) == ["spot-0"]
    assert re.findall(r'<rect class="(ready|lost)"', page) == ["ready", "lost"]
    assert "lost after 1 min: exit code -9" in page
    assert "75 % less is paid" in page


async def test_moves_are_shown_while_the_ledger_answers(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_us = round(one.parts.outside.clock() * 1e6) - 60_000_000
    monkeypatch.setattr(queries, "moves", lambda *_: [MovedCall("req_0190aa", "small-spot", at_us)])
    page = await look(one)
    assert 'href="/console/calls/req_0190aa"' in page
    assert "1 answer went on elsewhere" in page


async def test_signed_out_visitor_sees_no_fleet(one: Edge) -> None:
    async with browser(one) as client:
        assert (await client.get("/console/fleet/live")).status_code == 401
        assert (await client.get("/console/fleet")).status_code == 303
