"""The live fleet: what the controller said last, joined with the catalog and our own load."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.catalog.catalog import Catalog
from gateway.catalog.fleet import FLEET_KEY, FleetKeeper
from routing.economics.rates import PRIOR_LOSSES_PER_S
from routing.gauges import Gauges
from routing.speeds import guessed_speeds
from routing.types import CapacityClass, PoolState, ReplicaState
from tests.routing.fleets import MODELS, NOW_S, pool
from tests.workers.autoscaling.test_scale import KNOBS
from workers.autoscaling.scale import decide
from workers.autoscaling.types import PoolMemory, PoolView
from workers.controller.fleet_publisher import FleetPublisher, PoolEntry, ReplicaEntry

GAUGES = Gauges(100, 4096, 8192, 30, 70)
POOLS = (pool("a"), pool("b", model="large"), pool("orphan", model="gone"))


def keeper(redis: Redis) -> FleetKeeper:
    catalog = Catalog(1, MODELS, POOLS, {})
    return FleetKeeper(redis, lambda: catalog, lambda _: None, lambda: NOW_S, poll_s=0.01)


async def publish(redis: Redis, *replicas: dict[str, Any], **of_pool: Any) -> None:
    entry = {"name": "a", "target": 1, "replicas": replicas} | of_pool
    fleet = {"v": 1, "seq": 1, "at_ms": round(NOW_S * 1000) - 500, "pools": [entry]}
    await redis.set(FLEET_KEY, json.dumps(fleet))


def replica(name: str = "r1", state: str = "WARM") -> dict[str, Any]:
    return {"id": name, "address": "http://x", "state": state, "since_ms": 1, "running": 2}


async def test_before_anything_is_published_every_pool_is_cold(redis: Redis) -> None:
    fleet = keeper(redis)
    await fleet.refresh()
    assert [(s.pool.name, s.replicas) for s in fleet.snapshot().pools] == [("a", ()), ("b", ())]


async def test_snapshot_joins_what_is_published_with_the_catalog(redis: Redis) -> None:
    await publish(redis, replica(), cold_start_s=3.5, waiting=4, blocked="failing")
    fleet = keeper(redis)
    await fleet.refresh()
    found = fleet.state("a")
    assert found is not None
    assert found.replicas[0].state is ReplicaState.WARM
    assert (found.pool.cold_start_s, found.waiting, found.blocked_reason) == (3.5, 4, "failing")
    assert fleet.age_s == 0.5
    assert fleet.state("nowhere") is None


async def test_replicas_come_with_their_gauges_and_old_documents_without(redis: Redis) -> None:
    await publish(redis, replica("new") | {"gauges": asdict(GAUGES)}, replica("old"))
    fleet = keeper(redis)
    await fleet.refresh()
    found = fleet.state("a")
    assert found is not None
    assert [each.gauges for each in found.replicas] == [GAUGES, None]


async def test_what_the_controller_publishes_is_what_gateways_read(redis: Redis) -> None:
    warm = ReplicaEntry("r1", "http://x", "WARM", 1, 2, 0, GAUGES)
    entry = PoolEntry("a", 1, "", 3.5, 0, (warm,))
    await FleetPublisher(redis, controller_id="c").publish((entry,), at_ms=round(NOW_S * 1000))
    fleet = keeper(redis)
    await fleet.refresh()
    found = fleet.state("a")
    assert found is not None and found.replicas[0].gauges == GAUGES


async def test_risk_of_a_spot_pool_is_learned_of_the_replicas_that_it_lost(redis: Redis) -> None:
    spot = pool("a", capacity_class=CapacityClass.SPOT)
    catalog = Catalog(1, MODELS, (spot, pool("b")), {})
    fleet = FleetKeeper(redis, lambda: catalog, lambda _: None, lambda: NOW_S, poll_s=0.01)
    rates = []
    for lost in (None, 0.0, 3.0):
        if lost is not None:
            entry = PoolEntry("a", 1, "", 3.5, 0, (), lost=lost, warm_s=9 * 3600.0)
            publisher = FleetPublisher(redis, controller_id="c")
            await publisher.publish((entry,), at_ms=round(NOW_S * 1000))
            await fleet.refresh()
        states = {each.pool.name: each for each in fleet.snapshot().pools}
        assert states["b"].losses_per_s is None
        rates.append(states["a"].losses_per_s)
    assert rates == pytest.approx([PRIOR_LOSSES_PER_S, 1 / (12 * 3600), 4 / (12 * 3600)], rel=0.05)


async def test_terms_of_a_decision_reach_gateways_as_they_were(redis: Redis) -> None:
    _, decision = decide(PoolView(0, (), 5), PoolMemory(0, 1_000.0), KNOBS)
    entry = PoolEntry("a", 1, "", 3.5, 5, (), terms=decision.terms)
    await FleetPublisher(redis, controller_id="c").publish((entry,), at_ms=round(NOW_S * 1000))
    fleet = keeper(redis)
    await fleet.refresh()
    (published,) = fleet.published
    assert published.terms == decision.terms is not None


async def test_replicas_of_a_stale_picture_count_as_full_until_a_new_one_comes(
    redis: Redis,
) -> None:
    catalog = Catalog(1, MODELS, POOLS, {})
    clock = [NOW_S]
    fleet = FleetKeeper(
        redis, lambda: catalog, lambda _: None, lambda: clock[0], poll_s=0.01, stale_s=2.0
    )
    busy = replica() | {"gauges": asdict(GAUGES)}
    await publish(redis, busy)
    await fleet.refresh()
    for passed_s, is_stale in ((2.0, False), (2.1, True), (60.0, True)):
        clock[0] = NOW_S + passed_s
        await fleet.refresh()
        found = fleet.state("a")
        assert found is not None and found.is_stale is is_stale
        (seen,) = found.replicas
        believed = (POOLS[0].max_ongoing, None) if is_stale else (2, GAUGES)
        assert (seen.running, seen.gauges) == believed
    await publish(redis, busy, waiting=1)
    await fleet.refresh()
    found = fleet.state("a")
    assert found is not None and not found.is_stale and found.replicas[0].gauges == GAUGES


async def test_pool_that_lost_its_replicas_is_waited_for_until_it_is_back(redis: Redis) -> None:
    await publish(redis, cold_start_s=3.5, ready_at_ms=round((NOW_S + 20) * 1000))
    fleet = keeper(redis)
    await fleet.refresh()
    found = fleet.state("a")
    assert found is not None
    assert found.ready_at_s == pytest.approx(NOW_S + 20)


async def test_pool_that_starts_is_waited_for_until_the_first_predicted_end(redis: Redis) -> None:
    """The controller knows of each start what a gateway cannot: bytes to come, and who wakes."""
    starts = [replica(id) | {"state": "STARTING", "eta_s": eta} for id, eta in (("a", 9), ("b", 2))]
    fleet = keeper(redis)
    for lost, expected_s in (({}, 1.5), ({"ready_at_ms": round((NOW_S + 20) * 1000)}, 20)):
        await publish(redis, *starts, **lost)
        await fleet.refresh()
        found = fleet.state("a")
        assert found is not None and found.ready_at_s == pytest.approx(NOW_S + expected_s, abs=0.1)


async def test_prediction_of_a_controller_that_is_away_is_not_believed_for_ever(
    redis: Redis,
) -> None:
    catalog, clock = Catalog(1, MODELS, POOLS, {}), [NOW_S]
    fleet = FleetKeeper(
        redis, lambda: catalog, lambda _: None, lambda: clock[0], poll_s=0.01, stale_s=2.0
    )
    await publish(redis, replica("a") | {"state": "STARTING", "eta_s": 9.0})
    await fleet.refresh()
    clock[0] = NOW_S + 60.0
    found = fleet.state("a")
    assert found is not None and found.is_stale and found.ready_at_s is None


async def test_pool_whose_model_is_gone_is_in_no_snapshot(redis: Redis) -> None:
    assert "orphan" not in [s.pool.name for s in keeper(redis).snapshot().pools]


async def test_who_waits_is_woken_by_a_change_and_not_before(redis: Redis) -> None:
    fleet = keeper(redis)
    await publish(redis)
    await fleet.refresh()
    waiting = [asyncio.create_task(fleet.changed(timeout_s=30)) for _ in range(3)]
    await fleet.refresh()
    assert not any(task.done() for task in waiting)
    await publish(redis, replica())
    await fleet.refresh()
    async with asyncio.timeout(30):
        await asyncio.gather(*waiting)


async def test_waiting_ends_by_itself(redis: Redis) -> None:
    async with asyncio.timeout(30):
        await keeper(redis).changed(timeout_s=0.01)


async def test_one_who_stops_waiting_does_not_wake_the_others(redis: Redis) -> None:
    fleet = keeper(redis)
    first, second = (asyncio.create_task(fleet.changed(timeout_s=30)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    await publish(redis, replica())
    await fleet.refresh()
    async with asyncio.timeout(30):
        await second


async def test_what_cannot_be_read_is_kept_as_it_was(redis: Redis) -> None:
    await publish(redis, replica())
    fleet = keeper(redis)
    await fleet.refresh()
    unreadable: Sequence[bytes] = (b"", b"{", b"[]", b'{"pools":[{}]}', b"\xff")
    for raw in unreadable:
        await redis.set(FLEET_KEY, raw)
        await fleet.refresh()
        found = fleet.state("a")
        assert found is not None and len(found.replicas) == 1, raw
    await publish(redis)
    await fleet.refresh()
    assert fleet.snapshot().pools[0].replicas == ()


POOL_OF = {"a": "one", "b": "one", "c": "other"}


@given(st.lists(st.sampled_from("abc"), max_size=20), st.data())
def test_in_flight_is_what_is_open_and_nothing_at_the_end(
    names: list[str], data: st.DataObject
) -> None:
    """Law 6, in any order of opening and closing."""
    fleet = keeper(Redis())
    still_open: list[str] = []
    for name in names:
        fleet.began(name, POOL_OF[name])
        still_open.append(name)
        if data.draw(st.booleans()):
            gone = still_open.pop(data.draw(st.integers(0, len(still_open) - 1)))
            fleet.ended(gone, POOL_OF[gone])
        pools = [POOL_OF[each] for each in still_open]
        assert fleet.in_flight_of_pool == {n: pools.count(n) for n in pools}
        assert fleet.in_flight == {n: still_open.count(n) for n in set(still_open)}
    for name in still_open:
        fleet.ended(name, POOL_OF[name])
    assert fleet.in_flight == fleet.in_flight_of_pool == {}


async def test_a_pool_is_predicted_once_for_each_poll_however_many_calls_ask(redis: Redis) -> None:
    catalog, asked = Catalog(1, MODELS, POOLS, {}), list[str]()

    def learned(state: PoolState) -> PoolState:
        asked.append(state.pool.name)
        return replace(state, learned=guessed_speeds(len(asked)))

    fleet = FleetKeeper(
        redis, lambda: catalog, lambda _: None, lambda: NOW_S, poll_s=0.01, learned=learned
    )
    for polls in (1, 2):
        await fleet.refresh()
        states = [fleet.state("a") for _ in range(5)]
        assert len({id(state) for state in states}) == 1
        assert asked == [each.name for each in POOLS] * polls
        assert states[0] is not None and states[0].learned == guessed_speeds(3 * polls - 2)


@pytest.mark.parametrize(
    ("replicas", "start_s"),
    [
        ((), 8.0),
        ((replica(state="SLEEPING"),), 0.3),
        ((replica(state="STARTING") | {"stage": "wake"},), 0.3),
        ((replica(state="STARTING") | {"stage": "load"},), 8.0),
    ],
)
async def test_next_replica_of_a_pool_that_sleeps_takes_as_long_as_a_wake(
    redis: Redis, replicas: Sequence[dict[str, Any]], start_s: float
) -> None:
    await publish(redis, *replicas, cold_start_s=8.0, wake_s=0.3)
    fleet = keeper(redis)
    await fleet.refresh()
    state = fleet.state("a")
    assert state is not None and state.pool.cold_start_s == start_s
    assert not state.is_paid_for or state.replicas[0].state is ReplicaState.STARTING
