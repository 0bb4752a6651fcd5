"""A Ray cluster that somebody else runs is joined and left: our pools run there on nodes with
addresses of their own, and what others run there is never touched.

One cluster for the file; the tests build on each other in order.
"""

import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
import pytest

from tests.workers.cluster import PATIENCE_S, SECRET, Cluster, Gateway, Part, pool
from tests.workers.engines.conftest import MODEL_PATH
from tests.workers.engines.simulated.cards import H100
from tests.workers.existing.foreign import TOKEN, ForeignCluster
from tests.workers.published import published_model
from workers.controller.drains import ask_to_drain
from workers.controller.fleet_publisher import Fleet, NodeEntry, PoolEntry

pytestmark = [pytest.mark.xdist_group("existing"), pytest.mark.timeout(480)]

ZONES = {"127.0.0.2": "a", "127.0.0.3": "b"}
"""By the address of a node."""
TYPES = """
[[nodes]]
name = "base-a"
market = "reserved"
zone = "a"
cpus = 2

[[nodes]]
name = "base-b"
market = "reserved"
zone = "b"
cpus = 2
"""
POOL = pool("joined", engine="simulated", initial_replicas=2, max_replicas=2, num_cpus=1.5)
CALL = {
    "messages": [{"role": "user", "content": "Tell me about the gate."}],
    "sluice": {"request_id": "req_1", "cache_salt": "org_1"},
    "max_tokens": 4,
}


class Joined(Cluster):
    """Our parts beside somebody else's cluster: Redis, and `sluice workers --ray-address`."""

    def __init__(self, folder: Path, foreign: ForeignCluster) -> None:
        super().__init__(folder)
        self.env["SLUICE_RAY__ADDRESS"] = foreign.address
        self.env["RAY_AUTH_TOKEN"] = TOKEN
        (folder / "sluice.toml").write_text(TYPES)
        self.env["SLUICE_CONFIG"] = str(folder / "sluice.toml")
        del self.env["SLUICE_CONTROLLER__IMPORT_PATH"]

    def launch(self) -> None:
        log = self.folder / "controller.log"
        self.launcher = Part("workers.ray.launch", self.env, log, "--alone")
        self.launcher.await_ready()

    async def publish(self, *pools: dict[str, Any]) -> None:
        catalog = {
            "revision": 1,
            "models": [published_model(name="m", path=str(MODEL_PATH))],
            "pools": pools,
            "rooflines": {each["name"]: H100 for each in pools},
        }
        redis = self.redis.client()
        await redis.set("sluice:catalog", msgspec.json.encode(catalog))
        await redis.aclose()


@pytest.fixture(scope="module")
def foreign() -> Iterator[ForeignCluster]:
    # Short: sockets of Ray lie in it, and their names have 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="f-") as folder:
        foreign = ForeignCluster(Path(folder))
        try:
            foreign.start()
            foreign.deploy_foreign_app()
            yield foreign
        finally:
            foreign.stop()


@pytest.fixture(scope="module")
def ours(foreign: ForeignCluster) -> Iterator[Joined]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        ours = Joined(Path(folder), foreign)
        ours.redis.start()
        try:
            yield ours
        finally:
            if ours.launcher is not None:
                ours.launcher.end()
            ours.redis.kill9()


@pytest.fixture
async def gateway(ours: Joined) -> AsyncIterator[Gateway]:
    async with Gateway(ours) as gateway:
        yield gateway


def are_warm(entry: PoolEntry) -> bool:
    return sum(replica.state == "WARM" for replica in entry.replicas) == 2


def refusals(foreign: ForeignCluster, folder: Path, **env: str) -> list[str]:
    """What is said where the cluster cannot be joined."""
    ours = Joined(folder, foreign)
    part = Part("workers.ray.launch", ours.env | env, folder / "refused.log", "--alone")
    assert part.wait(PATIENCE_S) == 1
    assert not (folder / "data" / "ray.json").exists()
    return (folder / "refused.log").read_text().splitlines()


def test_a_wrong_token_is_one_line(foreign: ForeignCluster, tmp_path: Path) -> None:
    (line,) = refusals(foreign, tmp_path, RAY_AUTH_TOKEN="0" * 32)
    assert line.endswith("set RAY_AUTH_TOKEN to the one that its nodes were started with")


def test_a_cluster_without_nodes_is_joined_and_its_nodes_are_used_when_they_come(
    foreign: ForeignCluster, ours: Joined
) -> None:
    ours.launch()
    assert "no node has CPUs yet" in (ours.folder / "controller.log").read_text()
    for ip, zone in ZONES.items():
        foreign.add_node(ip, zone)
    foreign.await_nodes(len(ZONES))


async def test_replicas_of_other_nodes_answer_at_the_addresses_of_their_nodes(
    ours: Joined, gateway: Gateway
) -> None:
    await ours.publish(POOL)
    entry = await gateway.until("joined", are_warm)
    hosts = {replica.address.split("//")[1].split(":")[0] for replica in entry.replicas}
    assert hosts == set(ZONES)
    for replica in entry.replicas:
        assert await status(replica.address, SECRET) == 200
        assert await status(replica.address, "wrong") == 401
        process = psutil.Process(replica.pid)
        assert "_ray_pkg_" in process.cwd()
        listens = {each.laddr for each in process.net_connections() if each.status == "LISTEN"}
        assert ("127.0.0.1" not in {ip for ip, _ in listens}) and "0.0.0.0" not in dict(listens)


async def test_its_nodes_are_listed_with_the_replicas_on_them(gateway: Gateway) -> None:
    entry = await gateway.until("joined", are_warm)
    fleet = await gateway.fleet()
    assert fleet is not None
    assert [(each.type, each.zone, each.state, each.replicas) for each in by_type(fleet)] == [
        ("base-a", "a", "ready", 1),
        ("base-b", "b", "ready", 1),
    ]
    assert {replica.node for replica in entry.replicas} == {each.id for each in fleet.nodes}


def by_type(fleet: Fleet) -> list[NodeEntry]:
    return sorted(fleet.nodes, key=lambda each: each.type)


async def status(address: str, secret: str) -> int:
    headers = {"x-sluice-worker-secret": secret}
    url = f"{address}/v1/chat/completions"
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, json=CALL) as reply,
    ):
        await reply.read()
        return reply.status


async def test_after_a_kill_it_takes_over_its_own_applications(
    foreign: ForeignCluster, ours: Joined, gateway: Gateway
) -> None:
    before = await gateway.until("joined", are_warm)
    controller = (await gateway.fleet()).controller  # type: ignore[union-attr]
    assert ours.launcher is not None
    ours.launcher.end(signal.SIGKILL)
    ours.launch()
    await gateway.next_controller(controller)
    after = await gateway.until("joined", are_warm)
    assert {each.pid for each in after.replicas} == {each.pid for each in before.replicas}
    assert foreign.foreign_answer() == "foreign"


async def test_a_node_that_is_drained_takes_no_call(gateway: Gateway) -> None:
    fleet = await gateway.fleet()
    assert fleet is not None
    node = by_type(fleet)[1]
    await ask_to_drain(gateway.redis, node.id, deadline_s=600.0)

    def is_draining(entry: PoolEntry) -> bool:
        return {each.node: each.state for each in entry.replicas}.get(node.id) == "DRAINING"

    await gateway.until("joined", is_draining)
    fleet = await gateway.fleet()
    assert fleet is not None
    assert [each.state for each in by_type(fleet)] == ["ready", "draining"]


def test_leaving_takes_away_its_own_applications_alone(
    foreign: ForeignCluster, ours: Joined
) -> None:
    assert ours.launcher is not None
    assert set(foreign.applications()) > {"foreign"}
    assert ours.launcher.end() == 0
    ours.launcher = None
    assert set(foreign.applications()) == {"foreign"}
    assert foreign.foreign_answer() == "foreign"
