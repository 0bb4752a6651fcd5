"""Nodes on real raylets: Ray's autoscaler brings and takes them, people drain them, kills lose
them.

One cluster for the file; the tests build on each other's nodes in order, as a day in its life.
"""

import asyncio
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import aiohttp
import psutil
import pytest

from tests.workers.cluster import PATIENCE_S, SECRET, Cluster, Gateway, Part, pool
from tests.workers.notices.metadata_server import MetadataServer, metadata_server
from workers.autoscaling.demand import PoolOrder
from workers.controller.drains import LEAVING_KEY, ask_to_drain, deadlines_s
from workers.controller.fleet_publisher import NodeEntry, PoolEntry
from workers.controller.orders import PoolOrders
from workers.nodes.folder import NodesFolder
from workers.nodes.node_type import NodeType
from workers.nodes.room import bundles_and_labels
from workers.ray.session import members
from workers.writer.client import WriterApi
from workers.writer.writes import Leader, RequestNodes

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.timeout(600)]

TYPES = """
[ray]
node_idle_s = 10.0

[[nodes]]
name = "base-b"
market = "reserved"
zone = "b"
max = 2
cost_nanousd_per_s = 20000

[[nodes]]
name = "spot-a"
market = "spot"
zone = "a"
max = 2

[[nodes]]
name = "spot-none"
market = "spot"
zone = "z"
capacity_file = "none.json"

[[nodes]]
name = "spot-c"
market = "spot"
zone = "c"
capacity_file = "swings.json"
notice_s = 1.0

[[nodes]]
name = "one-gpu"
gpus = 1
max = 2
"""
WATCHED = """
[[nodes]]
name = "spot-d"
market = "spot"
zone = "d"
notice_s = 30.0
notices = "aws"
notices_url = "{url}"
"""
NONE = {"metadata": {"gap_seconds": 195}, "data": [0]}
SWINGS = {"metadata": {"gap_seconds": 25}, "data": [1, 0]}
"""A node begins well within such a gap; its test waits for one with and one without capacity."""
BASE = pool("base")
SPOT = pool("cheap", capacity_class="spot", zone="a")
ANNOUNCED = pool("announced", capacity_class="spot", zone="d")
SWINGING = pool("swinging", capacity_class="spot", zone="c")
HALF = pool("half", capacity_class="on_demand", num_gpus=0.5, max_replicas=4)
WIDE = pool("wide", capacity_class="on_demand", num_cpus=0.2, num_gpus=2.0, num_nodes=2)
NOWHERE = pool("nowhere", capacity_class="spot", nodes="spot-none")


@pytest.fixture(scope="module")
def metadata() -> Iterator[MetadataServer]:
    with metadata_server() as server:
        yield server


@pytest.fixture(scope="module")
def cluster(metadata: MetadataServer) -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name:
        folder = Path(name)
        (folder / "none.json").write_text(json.dumps(NONE))
        (folder / "swings.json").write_text(json.dumps(SWINGS))
        (folder / "nodes.toml").write_text(TYPES + WATCHED.format(url=metadata.url))
        cluster = Cluster(folder)
        cluster.env["SLUICE_CONFIG"] = str(folder / "nodes.toml")
        try:
            cluster.start()
            yield cluster
        finally:
            sessions = processes(cluster)
            left = cluster.stop()
        psutil.wait_procs(sessions, timeout=PATIENCE_S)
        assert not left and not [each for each in sessions if each.is_running()]


def processes(cluster: Cluster) -> list[psutil.Process]:
    """Of all nodes."""
    nodes = NodesFolder(cluster.ray_file.nodes_folder).nodes()
    sessions = [node.process.session for node in nodes if node.process is not None]
    return [process for session in sessions for process in members(session)]


@pytest.fixture
async def gateway(cluster: Cluster) -> AsyncIterator[Gateway]:
    async with Gateway(cluster) as gateway:
        yield gateway


async def nodes(gateway: Gateway) -> tuple[NodeEntry, ...]:
    fleet = await gateway.fleet()
    return () if fleet is None else fleet.nodes


async def node_until(
    gateway: Gateway, holds: Callable[[NodeEntry], bool], timeout_s: float = PATIENCE_S
) -> NodeEntry:
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        seen = await nodes(gateway)
        if match := [node for node in seen if holds(node)]:
            return match[0]
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {seen}")


async def leaving_s(gateway: Gateway, id: str) -> float:
    """When the node ends, once gateways hear of it: the controller says so after what it shows."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        marks = cast(dict[bytes, bytes], await gateway.redis.hgetall(LEAVING_KEY))
        if end_s := deadlines_s(marks).get(id):
            return end_s
        await asyncio.sleep(0.05)
    raise AssertionError(f"no gateway heard that {id} leaves")


async def until_gone(node: NodeEntry) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while node.pid is not None and psutil.pid_exists(node.pid):
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.05)


def is_warm(entry: PoolEntry) -> bool:
    return any(r.state == "WARM" for r in entry.replicas)


def is_warm_on_another(node: str) -> Callable[[PoolEntry], bool]:
    return lambda entry: any(r.state == "WARM" and r.node != node for r in entry.replicas)


def node_of(entry: PoolEntry) -> str:
    [node] = {r.node for r in entry.replicas if r.state == "WARM"}
    assert node is not None
    return node


async def test_no_node_runs_before_one_is_needed(gateway: Gateway) -> None:
    await gateway.publish(BASE, SPOT, NOWHERE)
    await gateway.until("nowhere", lambda entry: entry.target == 0)
    first = await gateway.fleet()
    assert first is not None
    deadline_s = time.monotonic() + PATIENCE_S
    while (fleet := await gateway.fleet()) and fleet.seq < first.seq + 30:
        assert fleet.nodes == () and time.monotonic() < deadline_s
        await asyncio.sleep(0.05)


async def test_call_brings_a_node_of_the_market_and_zone_of_its_pool(gateway: Gateway) -> None:
    answers = await asyncio.gather(gateway.call("base", "one"), gateway.call("cheap", "two"))
    assert [answer["pool"] for answer in answers] == ["base", "cheap"]
    for name, type, market, zone in (
        ("base", "base-b", "reserved", "b"),
        ("cheap", "spot-a", "spot", "a"),
    ):
        id = node_of(await gateway.until(name, is_warm))
        node = await node_until(gateway, lambda node: node.id == id and node.replicas == 1)  # noqa: B023
        assert (node.type, node.market, node.zone, node.state) == (type, market, zone, "ready")
        assert node.pid is not None and "raylet" in psutil.Process(node.pid).name()
    assert len(await nodes(gateway)) == 2, "two that start at once do not get into each other's way"


async def test_type_without_capacity_blocks_its_pool_with_the_words_of_the_provider(
    gateway: Gateway,
) -> None:
    await gateway.room.enter("nowhere", "early", wait_ms=round(PATIENCE_S * 1000))
    entry = await gateway.until("nowhere", lambda entry: entry.blocked is not None)
    await gateway.room.leave("nowhere", "early")
    assert entry.blocked and "no capacity for spot-none: spot in z" in entry.blocked
    assert (await gateway.call("cheap", "late"))["pool"] == "cheap"


async def test_drained_node_takes_no_new_call_and_another_one_comes(gateway: Gateway) -> None:
    id = node_of(await gateway.until("cheap", is_warm))
    await ask_to_drain(gateway.redis, id, 600.0)
    node = await node_until(gateway, lambda node: node.id == id and node.state == "draining")
    assert node.deadline_ms is not None and node.why == "drained by an administrator"
    await gateway.until(
        "cheap", lambda e: all(r.state != "WARM" for r in e.replicas if r.node == id)
    )
    await gateway.until("cheap", is_warm_on_another(id))
    ended = await node_until(gateway, lambda node: node.id == id and node.state == "gone")
    assert ended.why == "drained by an administrator"
    await until_gone(ended)


async def test_killed_raylet_is_a_lost_node_and_its_pool_goes_on_elsewhere(
    gateway: Gateway,
) -> None:
    id = node_of(await gateway.until("cheap", is_warm))
    node = await node_until(gateway, lambda node: node.id == id)
    assert node.pid is not None
    psutil.Process(node.pid).send_signal(signal.SIGKILL)
    lost = await node_until(gateway, lambda node: node.id == id and node.state == "lost")
    assert lost.why == "exit code -9"
    await gateway.until("cheap", is_warm_on_another(id))


async def test_killed_autoscaler_is_started_again_and_knows_its_nodes(
    gateway: Gateway, cluster: Cluster
) -> None:
    id = node_of(await gateway.until("base", is_warm))
    monitors = [p for p in members(cluster.ray_file.session) if "monitor.py" in _line(p)]
    for process in monitors:
        process.kill()
    await gateway.publish(BASE | {"idle_s": 0.5}, SPOT)
    node = await node_until(gateway, lambda node: node.id == id and node.state == "gone")
    assert node.why == "idle"


async def test_node_goes_with_the_capacity_of_its_trace_after_a_notice(gateway: Gateway) -> None:
    await gateway.publish(SPOT, SWINGING)
    await gateway.room.enter("swinging", "waits", wait_ms=round(PATIENCE_S * 1000))
    node = await node_until(
        gateway,
        lambda node: (
            node.why == "spot capacity in c was taken away" and node.state in ("gone", "lost")
        ),
        timeout_s=3 * PATIENCE_S,
    )
    await gateway.room.leave("swinging", "waits")
    assert (
        node.type == "spot-c"
        and node.deadline_ms is not None
        and node.deadline_ms > node.launched_ms
    )


async def test_notice_of_a_cloud_drains_its_node_and_gateways_hear_of_it(
    gateway: Gateway, cluster: Cluster, metadata: MetadataServer
) -> None:
    """Also where the watcher was killed before: another one hears it."""
    await gateway.publish(SPOT, ANNOUNCED)
    assert (await gateway.call("announced", "one"))["pool"] == "announced"
    id = node_of(await gateway.until("announced", is_warm))
    await until_running(cluster, "pool-announced")
    [watcher] = watchers(cluster, id)
    watcher.kill()
    ends_s = int(time.time()) + 60
    ends = datetime.fromtimestamp(ends_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata.say(AWS_ACTION=json.dumps({"action": "terminate", "time": ends}))
    node = await node_until(gateway, lambda node: node.id == id and node.state != "ready")
    metadata.has.clear()
    assert (node.state, node.deadline_ms) == ("draining", ends_s * 1000)
    assert node.why == "EC2 announced: terminate"
    assert await leaving_s(gateway, id) == ends_s
    leaving = await gateway.until("announced", lambda e: any(r.ends_ms for r in e.replicas))
    [replica] = [r for r in leaving.replicas if r.node == id]
    assert replica.state == "DRAINING" and (replica.ends_ms or 0) <= ends_s * 1000
    await node_until(gateway, lambda node: node.id == id and node.state == "gone")


async def until_running(cluster: Cluster, app: str) -> None:
    """A replica answers before Serve says that it runs, and Serve ends one that starts on a node
    that drains."""
    deadline_s = time.monotonic() + PATIENCE_S
    async with cluster.dashboard() as dashboard:
        while time.monotonic() < deadline_s:
            async with dashboard.get("/api/serve/applications/") as reply:
                applications = (await reply.json())["applications"]
            ours = [each for name, each in applications.items() if name.startswith(app)]
            replicas = [r for each in ours for r in each["deployments"]["engine"]["replicas"]]
            if [replica["state"] for replica in replicas] == ["RUNNING"]:
                return
            await asyncio.sleep(0.1)
    raise AssertionError(f"no replica of {app} runs")


def watchers(cluster: Cluster, node: str) -> list[psutil.Process]:
    """Of one node's notices."""
    return [
        process
        for process in processes(cluster)
        if "workers.notices" in (line := _line(process)) and node in line
    ]


def on_nodes(entry: PoolEntry) -> list[int]:
    """How many warm replicas each node has, the least first."""
    nodes = Counter(replica.node for replica in entry.replicas if replica.state == "WARM")
    return sorted(nodes.values())


async def test_two_replicas_share_a_gpu_and_a_third_brings_a_node(gateway: Gateway) -> None:
    await gateway.publish(SPOT, HALF, WIDE)
    await gateway.until("half", lambda entry: entry.target == 0)
    orders = PoolOrders(gateway.redis)
    await orders.give("half", PoolOrder("first", 2))
    await gateway.until("half", lambda entry: on_nodes(entry) == [2])
    await orders.give("half", PoolOrder("second", 3))
    await gateway.until("half", lambda entry: on_nodes(entry) == [1, 2])


async def test_replica_over_two_nodes_waits_for_both(gateway: Gateway) -> None:
    """Nothing of it starts while one of them is taken."""
    orders = PoolOrders(gateway.redis)
    await orders.give("wide", PoolOrder("wide", 1))
    await gateway.until("wide", lambda entry: entry.target == 1)
    assert (await gateway.call("half", "meanwhile"))["pool"] == "half"
    wide = await gateway.pool("wide")
    assert wide is not None and on_nodes(wide) == []
    await orders.give("half", PoolOrder("none", 0))
    await gateway.until("wide", lambda entry: on_nodes(entry) == [1])
    assert (await gateway.call("wide", "wide"))["pool"] == "wide"


async def test_killed_launcher_and_head_leave_no_node(gateway: Gateway, cluster: Cluster) -> None:
    left = processes(cluster)
    assert left
    launcher = cluster.launcher
    assert launcher is not None
    launcher.end(signal.SIGKILL)
    psutil.Process(cluster.ray_file.session.sid).kill()
    cluster.launcher = Part("workers.ray.launch", cluster.env, cluster.folder / "launch.log")
    cluster.launcher.await_ready()
    _, alive = psutil.wait_procs(left, timeout=PATIENCE_S)
    assert not alive
    assert (await gateway.call("cheap", "after"))["pool"] == "cheap"


async def test_nodes_that_are_asked_for_come_without_a_replica_and_go_when_they_are_given_back(
    gateway: Gateway, cluster: Cluster
) -> None:
    """By the writer itself, in place of a controller: nothing else brings or keeps these nodes."""
    for controller in cluster.controllers:
        controller.end()
    folder = NodesFolder(cluster.ray_file.nodes_folder)
    highest = await cluster.highest_leader()
    leader = Leader(highest.epoch + 1, "test")
    bundles, labels = bundles_and_labels({"base-b": 1}, [NodeType(name="base-b")])

    def alive() -> int:
        return sum(n.is_alive and n.launch.type == "base-b" for n in folder.nodes())

    async with aiohttp.ClientSession() as http:
        api = WriterApi(http, url=cluster.ray_file.writer_url, secret=SECRET, timeout_s=PATIENCE_S)
        for request, count in ((RequestNodes(bundles, labels), 1), (RequestNodes(), 0)):
            await api.do(leader, request)
            deadline_s = time.monotonic() + PATIENCE_S
            while alive() != count:
                assert time.monotonic() < deadline_s, folder.nodes()
                await asyncio.sleep(0.05)


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
