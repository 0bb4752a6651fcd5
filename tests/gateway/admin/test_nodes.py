"""Nodes over the admin API, in the list, in the fleet, on the scrape, and drained."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from tests.gateway.api.described import assert_described
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer
from workers.autoscaling.stages import Stage, StageCount
from workers.controller.drains import DrainOrder, ask_to_drain, forget_drain, read_drains
from workers.controller.fleet_publisher import FleetPublisher, NodeEntry, PoolEntry, ReplicaEntry

READY = NodeEntry("spot-a-1", "spot-a", "spot", "a", "ready", 7_000, 1, 1_790_000_000_000, pid=7)
LEAVES = NodeEntry(
    *("spot-a-2", "spot-a", "spot", "a", "draining", 7_000, 1, 1_790_000_001_000),
    deadline_ms=1_790_000_031_000,
    why="spot capacity in a was taken away",
)
LOST = NodeEntry(
    *("base-1", "base", "reserved", None, "lost", 0, 0, 1_790_000_002_000), why="exit code -9"
)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        replica = ReplicaEntry("r1", "http://x", "WARM", 1, 0, 0, node="spot-a-1")
        stages = {Stage.NODE: StageCount(3, 62.5), Stage.LOAD: StageCount(2, 1.25)}
        pool = PoolEntry("tale-spot", 1, "", 3.5, 0, (replica,), stages=stages)
        publisher = FleetPublisher(redis, controller_id="c")
        await publisher.publish(
            (pool,),
            at_ms=1_790_000_003_000,
            nodes=(READY, LEAVES, LOST),
            epoch=4,
            spares={"spot-a": 2},
        )
        await running.parts.fleet.refresh()
        yield running


async def ask(one: Edge, method: str, path: str, **sent: Any) -> httpx.Response:
    transport = httpx.ASGITransport(app=one.app)
    named = {"authorization": "Bearer admin"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        answer = await http.request(method, path, headers=named, **sent)
    if answer.is_success and path.startswith("/admin"):
        target = path.partition("?")[0]
        assert_described(one.app, method, target, answer.status_code, answer.json())
    return answer


async def test_list_has_every_node_with_what_ends_it(one: Edge) -> None:
    rows = (await ask(one, "GET", "/admin/v1/nodes")).json()["data"]
    assert [row["id"] for row in rows] == ["spot-a-1", "spot-a-2", "base-1"]
    ready, leaves, lost = rows
    assert (ready["state"], ready["deadline"], ready["why"], ready["pid"]) == (
        *("ready", None, None, 7),
    )
    assert (ready["cost_nanousd_per_s"], ready["cost_usd_per_s"]) == (7_000, "0.000007")
    assert leaves["deadline"].startswith("2026-") and leaves["why"] == LEAVES.why
    assert (lost["state"], lost["zone"], lost["why"]) == ("lost", None, "exit code -9")


async def test_list_goes_on_behind_after(one: Edge) -> None:
    ids, behind = [], "?limit=1"
    while behind:
        page = (await ask(one, "GET", f"/admin/v1/nodes{behind}")).json()
        ids += [row["id"] for row in page["data"]]
        behind = f"?limit=1&after={page['after']}" if page["has_more"] else ""
    assert ids == ["spot-a-1", "spot-a-2", "base-1"]


async def test_drain_is_handed_to_the_controller_until_it_is_done(one: Edge) -> None:
    for id, sent in (("spot-a-1", {"json": {"deadline_s": 12.5}}), ("spot-a-2", {})):
        answer = await ask(one, "POST", f"/admin/v1/nodes/{id}/drain", **sent)
        assert (answer.status_code, answer.json()["id"]) == (202, id)
    assert await read_drains(one.redis) == {
        "spot-a-1": DrainOrder(12.5),
        "spot-a-2": DrainOrder(30.0),
    }
    await forget_drain(one.redis, "spot-a-1")
    assert await read_drains(one.redis) == {"spot-a-2": DrainOrder(30.0)}


@pytest.mark.parametrize(
    ("id", "sent", "status"),
    [
        ("nobody", {"deadline_s": 1}, 404),
        ("base-1", {"deadline_s": 1}, 409),
        ("spot-a-1", {"deadline_s": 0}, 400),
        ("spot-a-1", {"deadline_s": "soon"}, 400),
        ("spot-a-1", {"colour": 1}, 400),
    ],
)
async def test_drain_of_no_node_or_to_no_time_is_refused(
    one: Edge, id: str, sent: dict[str, Any], status: int
) -> None:
    answer = await ask(one, "POST", f"/admin/v1/nodes/{id}/drain", json=sent)
    assert answer.status_code == status, answer.text
    assert await read_drains(one.redis) == {}


async def test_fleet_names_the_node_of_a_replica_and_metrics_count_those_that_run(
    one: Edge,
) -> None:
    fleet = (await ask(one, "GET", "/admin/v1/fleet")).json()
    assert [r["node"] for p in fleet["pools"] for r in p["replicas"]] == ["spot-a-1"]
    lines = (await ask(one, "GET", "/metrics")).text.splitlines()
    labels = 'market="spot",state="{}",type="spot-a",zone="a"'
    nodes = [line for line in lines if line.startswith("sluice_nodes{")]
    assert sorted(nodes) == [
        f"sluice_nodes{{{labels.format('draining')}}} 1.0",
        f"sluice_nodes{{{labels.format('ready')}}} 1.0",
    ]


async def test_metrics_count_starts_by_stage_with_their_seconds(one: Edge) -> None:
    lines = (await ask(one, "GET", "/metrics")).text.splitlines()
    assert [line for line in lines if line.startswith("sluice_start")] == [
        'sluice_starts_total{pool="tale-spot",stage="node"} 3.0',
        'sluice_starts_total{pool="tale-spot",stage="load"} 2.0',
        'sluice_start_seconds_total{pool="tale-spot",stage="node"} 62.5',
        'sluice_start_seconds_total{pool="tale-spot",stage="load"} 1.25',
    ]


async def test_metrics_count_spares_and_say_which_lead_this_is(one: Edge) -> None:
    lines = (await ask(one, "GET", "/metrics")).text.splitlines()
    assert 'sluice_spares{type="spot-a"} 2.0' in lines
    assert "sluice_controller_epoch 4.0" in lines


async def test_node_that_is_heard_to_leave_counts_once(one: Edge) -> None:
    async def notices() -> float:
        lines = (await ask(one, "GET", "/metrics")).text.splitlines()
        [line] = [line for line in lines if line.startswith("sluice_node_notices_total")]
        return float(line.split()[-1])

    before = await notices()
    for _ in range(2):
        await ask_to_drain(one.redis, "spot-a-1", 600.0)
        await one.parts.fleet.refresh()
    assert await notices() == before + 1
