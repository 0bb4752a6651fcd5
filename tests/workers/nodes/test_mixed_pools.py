"""A mix on real raylets: zones of spot refuse, lose their nodes and get them back, and on-demand
bridges until others are ready.

One cluster for the file; the tests build on each other in order.
"""

import asyncio
import json
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from tests.workers.cluster import PATIENCE_S, Cluster, Gateway, pool
from tests.workers.nodes.test_machine_nodes import is_warm, node_of, node_until, nodes, processes
from workers.controller.fleet_publisher import PoolEntry

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.timeout(600)]

MIX = """
[ray]
node_idle_s = 10.0

[[nodes]]
name = "rented"
market = "on_demand"
max = 2

[[nodes]]
name = "spot-a"
market = "spot"
zone = "a"
capacity_file = "none.json"

[[nodes]]
name = "spot-b"
market = "spot"
zone = "b"

[[nodes]]
name = "spot-c"
market = "spot"
zone = "c"

[[nodes]]
name = "spot-d"
market = "spot"
zone = "d"
capacity_file = "swings.json"
notice_s = 5.0

[[mixes]]
name = "chat"
model = "m"
pools = ["rented", "spot-a", "spot-b", "spot-c", "spot-d"]
stable_s = 1.0
retry_s = 30.0
"""
COSTS = {"rented": 1000, "spot-a": 300, "spot-b": 310, "spot-c": 320, "spot-d": 330}
RENTED, SPOT_A, SPOT_B, SPOT_C, SPOT_D = (
    pool(
        name,
        capacity_class="on_demand" if name == "rented" else "spot",
        nodes=name,
        max_replicas=2 if name == "rented" else 1,
        cost_nanousd_per_s=cost,
    )
    for name, cost in COSTS.items()
)
SWINGS = {"metadata": {"gap_seconds": 40}, "data": [1, 0]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as name:
        folder = Path(name)
        none = {"metadata": {"gap_seconds": 195}, "data": [0]}
        (folder / "none.json").write_text(json.dumps(none))
        (folder / "swings.json").write_text(json.dumps(SWINGS))
        (folder / "mix.toml").write_text(MIX)
        cluster = Cluster(folder)
        cluster.env["SLUICE_CONFIG"] = str(folder / "mix.toml")
        try:
            cluster.start()
            yield cluster
        finally:
            sessions = processes(cluster)
            left = cluster.stop()
        psutil.wait_procs(sessions, timeout=PATIENCE_S)
        assert not left and not [each for each in sessions if each.is_running()]


@pytest.fixture
async def gateway(cluster: Cluster) -> AsyncIterator[Gateway]:
    async with Gateway(cluster) as gateway:
        yield gateway


def share_of(entry: PoolEntry) -> int:
    assert entry.mix is not None and entry.mix.mix == "chat"
    return entry.mix.share


async def test_caller_of_a_cold_spot_pool_gets_a_replica_on_demand(gateway: Gateway) -> None:
    """It waits for a zone that is not chosen, which says where the replicas of its mix are."""
    await gateway.publish(RENTED, SPOT_A, SPOT_B, SPOT_C)
    await gateway.room.enter("spot-c", "waits", wait_ms=round(PATIENCE_S * 1000))
    rented = await gateway.until("rented", is_warm)
    assert rented.mix is not None and rented.mix.need == 1 and rented.mix.bridge == 1
    assert rented.mix.why.startswith("1 in place of spot")
    assert rented.reason.startswith(("mix: ", "starting: "))
    elsewhere = await gateway.until("spot-c", lambda entry: entry.blocked is not None)
    assert elsewhere.blocked is not None and elsewhere.target == 0
    assert elsewhere.blocked.startswith("mix chat runs on its other pools")
    await gateway.room.leave("spot-c", "waits")


async def until_warm(gateway: Gateway, *names: str) -> PoolEntry:
    """The first of these pools that has a warm replica."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        entries = [entry for name in names if (entry := await gateway.pool(name)) is not None]
        if warm := [entry for entry in entries if is_warm(entry)]:
            return warm[0]
        await asyncio.sleep(0.05)
    raise AssertionError(f"still {entries}")


async def test_zone_that_refuses_is_set_aside_for_the_next_one(gateway: Gateway) -> None:
    """On a busy machine the node of the next one may be given up, too."""
    spot = await until_warm(gateway, "spot-b", "spot-c")
    assert share_of(spot) == 1
    refused = await gateway.until("spot-a", lambda entry: share_of(entry) == 0)
    assert refused.mix is not None and refused.target == 0
    rented = await gateway.until("rented", lambda entry: not entry.target and not entry.replicas)
    assert rented.mix is not None and rented.mix.spot_ready == 1


@pytest.mark.long
async def test_lost_node_is_bridged_on_demand_and_replaced_in_another_zone(
    gateway: Gateway,
) -> None:
    before = await until_warm(gateway, "spot-b", "spot-c")
    id = node_of(before)
    node = await node_until(gateway, lambda node: node.id == id)
    assert node.pid is not None
    psutil.Process(node.pid).send_signal(signal.SIGKILL)
    await gateway.until("rented", lambda entry: share_of(entry) == 1)
    await gateway.until("spot-c" if before.name == "spot-b" else "spot-b", is_warm)
    rented = await gateway.until("rented", lambda entry: not entry.target and not entry.replicas)
    assert rented.mix is not None and rented.mix.spot_ready == 1
    fleet = await gateway.fleet()
    assert fleet is not None
    targets = {entry.name: entry.target for entry in fleet.pools}
    assert targets["rented"] == targets[before.name] == 0


@pytest.mark.long
async def test_capacity_that_goes_and_comes_is_bridged_within_all_bounds(gateway: Gateway) -> None:
    """Twenty callers need two replicas: one zone holds one, the other one only now and then."""
    await gateway.publish(RENTED, SPOT_C, SPOT_D)
    for number in range(20):
        await gateway.room.enter("spot-c", f"waits-{number}", wait_ms=3 * round(PATIENCE_S * 1000))
    for _ in range(2):
        await gateway.until("spot-d", is_warm, timeout_s=3 * PATIENCE_S)
        await gateway.until("rented", lambda entry: share_of(entry) == 0)
        await gateway.until("spot-d", lambda entry: not is_warm(entry))
        await gateway.until("rented", is_warm)
        fleet = await gateway.fleet()
        assert fleet is not None
        mosts = {"rented": 2, "spot-c": 1, "spot-d": 1}
        assert all(entry.target <= mosts[entry.name] for entry in fleet.pools)
    ends = {node.why for node in await nodes(gateway) if node.type == "spot-d" and node.why}
    assert "spot capacity in d was taken away" in ends
