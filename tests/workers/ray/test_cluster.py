"""The journey of pools on a real Ray cluster with a real Redis: cold, warm, killed, lost.

One cluster for the file; the tests build on each other's fleet in order, as a day in its life.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.workers.cluster import GUESSED_START_S, PATIENCE_S, Cluster, Gateway, pool
from workers.controller.fleet_publisher import PoolEntry
from workers.ray.session import members

pytestmark = [pytest.mark.xdist_group("cluster"), pytest.mark.timeout(480)]

Record = Callable[[str, object], None]

STEADY = pool("steady", initial_replicas=1)
BRIEF = pool("brief", idle_s=1.0)
CALLERS = 200


def is_warm(entry: PoolEntry) -> bool:
    return any(r.state == "WARM" for r in entry.replicas)


def is_cold(entry: PoolEntry) -> bool:
    return entry.target == 0 and not entry.replicas


def is_draining(entry: PoolEntry) -> bool:
    return any(r.state == "DRAINING" for r in entry.replicas)


async def steady_replica(gateway: Gateway) -> str:
    return (await gateway.until("steady", is_warm)).replicas[0].id


async def applications(dashboard: aiohttp.ClientSession) -> dict[str, Any]:
    async with dashboard.get("/api/serve/applications/") as reply:
        return dict((await reply.json())["applications"])


async def replica_of(dashboard: aiohttp.ClientSession, app: str) -> str:
    """The one that runs, once it does."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        deployments = (await applications(dashboard)).get(app, {}).get("deployments", {})
        for replica in deployments.get("engine", {}).get("replicas", ()):
            if replica["state"] == "RUNNING":
                return str(replica["replica_id"])
        await asyncio.sleep(0.1)
    raise AssertionError(f"no replica of {app} runs")


async def gone(dashboard: aiohttp.ClientSession, prefix: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while any(name.startswith(prefix) for name in await applications(dashboard)):
        assert time.monotonic() < deadline_s, f"{prefix} is still there"
        await asyncio.sleep(0.1)


async def test_pools_are_deployed_as_the_catalog_says(
    gateway: Gateway, record_property: Record
) -> None:
    started_s = time.monotonic()
    await gateway.publish(STEADY, BRIEF)
    await gateway.until("steady", is_warm)
    record_property("deploy_to_warm_s", time.monotonic() - started_s)
    assert is_cold(await gateway.until("brief", is_cold))


async def test_sc_two_hundred_callers_of_a_cold_pool_cause_one_start(
    gateway: Gateway, record_property: Record
) -> None:
    """Nearly all of them only wait; ten ask again and again, and are answered at once then."""
    for i in range(10, CALLERS):
        await gateway.room.enter("brief", f"cold-{i}", wait_ms=round(PATIENCE_S * 1000))
    started_s = time.monotonic()
    calls = [asyncio.create_task(gateway.call("brief", f"cold-{i}")) for i in range(10)]
    replicas, targets = set(), set()
    while not all(call.done() for call in calls):
        entry = await gateway.pool("brief")
        assert entry is not None
        targets.add(entry.target)
        replicas |= {r.id for r in entry.replicas}
        await asyncio.sleep(0.02)
    record_property("cold_to_answer_s", time.monotonic() - started_s)
    assert len({call.result()["pid"] for call in calls}) == 1
    assert len(replicas) == 1
    assert targets <= {0, 1}
    late = [await gateway.call("brief", f"cold-{i}") for i in range(10, CALLERS)]
    assert {answer["pid"] for answer in late} == {calls[0].result()["pid"]}
    assert await gateway.room.depth("brief") == 0


async def test_measured_start_replaces_the_guess(gateway: Gateway) -> None:
    entry = await gateway.until("brief", lambda p: p.cold_start_s != GUESSED_START_S)
    assert 0 < entry.cold_start_s < GUESSED_START_S


@pytest.mark.parametrize("late_s", [0.0, 0.5, 0.7, 1.0])
async def test_call_on_the_way_down_is_not_lost(gateway: Gateway, late_s: float) -> None:
    await gateway.call("brief", f"wake-{late_s}")
    await gateway.until("brief", is_draining)
    await asyncio.sleep(late_s)
    answer = await gateway.call("brief", f"late-{late_s}")
    assert answer["pool"] == "brief"


async def test_running_call_keeps_its_pool_up(gateway: Gateway, tmp_path: Path) -> None:
    """The call works for longer than the pool may be idle."""
    done = tmp_path / "done"
    call = asyncio.create_task(gateway.call("brief", "long", until=done))
    first = await gateway.until("brief", lambda p: any(r.running for r in p.replicas))
    await asyncio.sleep(2 * BRIEF["idle_s"])
    assert (await gateway.until("brief", is_warm)).replicas[0].id == first.replicas[0].id
    done.touch()
    answer = await call
    assert answer["pool"] == "brief"
    assert (await gateway.until("brief", is_warm)).replicas[0].id == first.replicas[0].id
    await gateway.until("brief", is_cold)


async def test_depth_adds_a_replica_and_the_one_at_work_survives_the_way_back(
    gateway: Gateway, record_property: Record, tmp_path: Path
) -> None:
    await gateway.publish(STEADY, BRIEF, pool("wide", max_replicas=2, max_ongoing=4, idle_s=1.0))
    first = (await gateway.call("wide", "wake"))["pid"]
    busy_s = time.monotonic()
    wide, narrow = tmp_path / "wide", tmp_path / "narrow"
    long = asyncio.create_task(gateway.call("wide", "long", until=narrow))
    short = [asyncio.create_task(gateway.call("wide", f"s{i}", until=wide)) for i in range(5)]
    await gateway.until("wide", lambda p: sum(r.state == "WARM" for r in p.replicas) == 2)
    record_property("depth_until_second_warm_s", time.monotonic() - busy_s)
    wide.touch()
    await asyncio.gather(*short)
    await gateway.until("wide", lambda p: p.target == 1 and len(p.replicas) == 1)
    assert not long.done()
    narrow.touch()
    assert (await long)["pid"] == first
    await gateway.publish(STEADY, BRIEF)


async def test_killed_replica_is_dropped_at_once_and_replaced(
    gateway: Gateway, record_property: Record
) -> None:
    replica = await steady_replica(gateway)
    pid = (await gateway.call("steady", "who"))["pid"]
    psutil.Process(pid).send_signal(signal.SIGKILL)
    killed_s = time.monotonic()
    await gateway.until("steady", lambda p: not is_warm(p))
    record_property("dead_until_dropped_s", time.monotonic() - killed_s)
    entry = await gateway.until("steady", is_warm)
    record_property("dead_until_replaced_s", time.monotonic() - killed_s)
    assert entry.replicas[0].id != replica
    assert (await gateway.call("steady", "again"))["pid"] != pid


async def test_killed_raylet_is_replaced_on_the_control_store_that_lives(
    cluster: Cluster, gateway: Gateway, record_property: Record
) -> None:
    """Serve goes on with its applications: nobody deploys them again."""
    before, replica = cluster.processes(), await steady_replica(gateway)
    started_s = time.monotonic()
    psutil.Process(before["raylet"]).kill()
    await gateway.until("steady", lambda p: is_warm(p) and p.replicas[0].id != replica)
    record_property("raylet_killed_to_warm_s", time.monotonic() - started_s)
    after = cluster.processes()
    assert after["gcs_server"] == before["gcs_server"]
    assert after["raylet"] != before["raylet"]
    assert (await gateway.call("steady", "after-the-raylet"))["pid"]


async def test_killed_dashboard_is_replaced_and_no_replica_notices(
    cluster: Cluster, gateway: Gateway
) -> None:
    replica, session = await steady_replica(gateway), cluster.ray_file.session
    dashboards = [p for p in members(session) if "dashboard.py" in " ".join(p.cmdline())]
    (dashboard,) = dashboards
    dashboard.kill()
    await gateway.publish(STEADY, BRIEF, pool("after-the-dashboard"))
    await gateway.until("after-the-dashboard", is_cold)
    assert (await gateway.call("after-the-dashboard", "deployed"))["pid"]
    assert await steady_replica(gateway) == replica
    assert cluster.ray_file.session == session
    await gateway.publish(STEADY, BRIEF)


async def test_one_pools_change_leaves_the_others_alone(gateway: Gateway) -> None:
    replica = await steady_replica(gateway)
    changed = BRIEF | {"max_ongoing": 4}
    await gateway.publish(STEADY, changed, pool("added"))
    await gateway.until("added", is_cold)
    await gateway.publish(STEADY | {"idle_s": 500.0}, changed)
    assert (await gateway.call("brief", "changed"))["pool"] == "brief"
    assert await gateway.pool("added") is None
    assert await steady_replica(gateway) == replica


THEIRS = {
    "name": "theirs",
    "route_prefix": "/theirs",
    "import_path": "tests.workers.tiny_worker:build",
    "args": {"pool": "theirs", "model_path": "/models/theirs"},
}


async def test_applications_of_others_and_ours_leave_each_other_alone(
    cluster: Cluster, gateway: Gateway
) -> None:
    """They deploy a document of all of theirs, as `serve deploy` does."""
    ours = await steady_replica(gateway)
    async with cluster.dashboard() as dashboard:
        await dashboard.put("/api/serve/applications/", json={"applications": [THEIRS]})
        theirs = await replica_of(dashboard, "theirs")
        await gateway.publish(STEADY, BRIEF, pool("beside"))
        await gateway.until("beside", is_cold)
        await gateway.publish(STEADY, BRIEF)
        await gone(dashboard, "pool-beside.")
        assert await replica_of(dashboard, "theirs") == theirs
        await dashboard.put("/api/serve/applications/", json={"applications": []})
        await gone(dashboard, "theirs")
    assert await steady_replica(gateway) == ours
    assert (await gateway.call("steady", "beside-theirs"))["pool"] == "steady"


async def test_killed_writer_is_replaced_and_knows_who_leads(
    cluster: Cluster, gateway: Gateway
) -> None:
    replica = await steady_replica(gateway)
    (writer,) = [p for p in members(cluster.ray_file.session) if "workers.writer" in p.cmdline()]
    before = await cluster.highest_leader()
    writer.kill()
    assert (await gateway.call("steady", "no-writer"))["pool"] == "steady"
    await gateway.publish(STEADY, BRIEF, pool("after-the-writer"))
    await gateway.until("after-the-writer", is_cold)
    assert (await gateway.call("after-the-writer", "deployed"))["pool"] == "after-the-writer"
    assert await cluster.highest_leader() == before
    assert await steady_replica(gateway) == replica
    await gateway.publish(STEADY, BRIEF)


async def test_other_weights_replace_the_replica_without_a_gap(
    gateway: Gateway, record_property: Record, tmp_path: Path
) -> None:
    """Calls begin one after another, and each lasts until the new replica answers; those under way
    as it happens end where they began."""
    replaced = tmp_path / "replaced"
    old = await steady_replica(gateway)
    old_pid = (await gateway.call("steady", "old"))["pid"]
    started_s = time.monotonic()
    await gateway.publish(STEADY, BRIEF, path="/models/other")
    calls: list[asyncio.Task[dict[str, Any]]] = []
    seen = {old}
    while seen == {old}:
        entry = await gateway.pool("steady")
        assert entry is not None
        warm = [r.id for r in entry.replicas if r.state == "WARM"]
        assert len(warm) == 1, entry
        seen |= set(warm)
        elapsed_s = time.monotonic() - started_s
        assert elapsed_s < PATIENCE_S, entry
        if seen == {old} and len(calls) < min(20, elapsed_s / 0.5):
            call = gateway.call("steady", f"across-{len(calls)}", until=replaced)
            calls.append(asyncio.create_task(call))
        await asyncio.sleep(0.02)
    record_property("published_until_replaced_s", time.monotonic() - started_s)
    new_pid = (await gateway.call("steady", "new"))["pid"]
    assert new_pid != old_pid
    assert not any(call.done() for call in calls)
    replaced.touch()
    assert (await calls[0])["pid"] == old_pid
    assert {call["pid"] for call in await asyncio.gather(*calls)} <= {old_pid, new_pid}
    await gateway.until("steady", lambda p: len(p.replicas) == 1 and "replaced" not in p.reason)


async def test_broken_weights_leave_the_old_ones_serving_whoever_leads(
    cluster: Cluster, gateway: Gateway, tmp_path: Path
) -> None:
    """They are tried again, so that mending them is enough."""
    replica = await steady_replica(gateway)
    weights = tmp_path / "broken"
    await gateway.publish(STEADY, path=str(weights))
    entry = await gateway.until("steady", lambda p: "does not start" in p.reason)
    assert "the checkpoint is broken" in entry.reason
    assert is_warm(entry) and entry.blocked is None
    before = await gateway.fleet()
    assert before is not None
    cluster.controllers.pop(0).end(signal.SIGKILL)
    cluster.control()
    await gateway.next_controller(before.controller)
    assert await steady_replica(gateway) == replica
    assert (await gateway.call("steady", "all the same"))["pool"] == "steady"
    weights.mkdir()
    mended = await gateway.until(
        "steady", lambda p: is_warm(p) and all(r.id != replica for r in p.replicas)
    )
    assert mended.target == 1
    await gateway.publish(STEADY, BRIEF)


async def test_sm_broken_pool_is_left_alone_and_says_why(gateway: Gateway) -> None:
    await gateway.publish(STEADY, BRIEF, pool("broken", model="b"))
    await gateway.until("broken", is_cold)
    await gateway.room.enter("broken", "hopeful", wait_ms=round(PATIENCE_S * 1000))
    entry = await gateway.until("broken", lambda p: p.blocked is not None)
    assert entry.target == 0
    assert entry.blocked is not None and "the checkpoint is broken" in entry.blocked
    await gateway.room.leave("broken", "hopeful")
    await gateway.publish(STEADY, BRIEF)


async def test_standby_takes_over_and_adopts_what_it_finds(
    cluster: Cluster, gateway: Gateway
) -> None:
    replica = await steady_replica(gateway)
    cluster.control()
    before = await gateway.fleet()
    assert before is not None
    cluster.controllers.pop(0).end(signal.SIGKILL)
    after = await gateway.next_controller(before.controller)
    assert after.seq > before.seq
    assert await steady_replica(gateway) == replica
    assert (await gateway.call("steady", "adopted"))["pool"] == "steady"


async def test_a_leader_that_is_stopped_and_wakes_up_when_another_leads_writes_nothing(
    cluster: Cluster, gateway: Gateway
) -> None:
    """Meanwhile a pool came that it does not know, and that it would delete."""
    await gateway.until("steady", is_warm)
    cluster.control()
    stopped = cluster.controllers.pop(0)
    before = await gateway.fleet()
    assert before is not None
    stopped.signal(signal.SIGSTOP)
    after = await gateway.next_controller(before.controller)
    await gateway.publish(STEADY, BRIEF, pool("news"))
    await gateway.until("news", is_cold)
    leader = await cluster.highest_leader()
    assert leader.holder == after.controller and leader.epoch > before.epoch
    stopped.signal(signal.SIGCONT)
    seq = after.seq
    while seq < after.seq + 20:
        fleet = await gateway.fleet()
        assert fleet is not None and fleet.controller == after.controller
        seq = fleet.seq
        await asyncio.sleep(0.02)
    assert await cluster.highest_leader() == leader
    assert (await gateway.call("news", "still-there"))["pool"] == "news"
    stopped.end(signal.SIGKILL)
    await gateway.publish(STEADY, BRIEF)


async def test_wiped_redis_removes_nothing(cluster: Cluster, gateway: Gateway) -> None:
    replica = await steady_replica(gateway)
    cluster.redis.wipe()
    await gateway.until("steady", is_warm)
    await gateway.publish(STEADY, BRIEF)
    assert await steady_replica(gateway) == replica
    assert (await gateway.call("brief", "after-wipe"))["pool"] == "brief"


async def test_killed_launcher_is_succeeded_by_one_that_takes_the_cluster_over(
    cluster: Cluster, gateway: Gateway
) -> None:
    replica = await steady_replica(gateway)
    session = cluster.ray_file.session
    assert cluster.launcher is not None
    cluster.launcher.end(signal.SIGKILL)
    assert (await gateway.call("steady", "orphaned"))["pool"] == "steady"
    await asyncio.to_thread(cluster.launch)
    assert cluster.ray_file.session == session
    assert await steady_replica(gateway) == replica
    assert (await gateway.call("steady", "taken-over"))["pool"] == "steady"


async def test_cluster_with_other_settings_is_not_taken_over(
    cluster: Cluster, gateway: Gateway, record_property: Record
) -> None:
    replica = await steady_replica(gateway)
    session = cluster.ray_file.session
    assert cluster.launcher is not None
    cluster.launcher.end(signal.SIGKILL)
    cluster.env["SLUICE_RAY__NUM_CPUS"] = "3"
    relaunched_s = time.monotonic()
    await asyncio.to_thread(cluster.launch)
    assert members(session) == []
    entry = await gateway.until("steady", is_warm)
    record_property("launch_to_warm_s", time.monotonic() - relaunched_s)
    assert entry.replicas[0].id != replica
    assert (await gateway.call("brief", "relaunched"))["pool"] == "brief"


async def test_lost_head_ends_the_launcher_and_every_process_of_ray(
    cluster: Cluster, gateway: Gateway
) -> None:
    await gateway.until("steady", is_warm)
    session = cluster.ray_file.session
    psutil.Process(cluster.processes()["gcs_server"]).kill()
    assert cluster.launcher is not None
    assert await asyncio.to_thread(cluster.launcher.wait, PATIENCE_S) == 1
    assert members(session) == []
    await gateway.until("steady", lambda p: not p.replicas)
