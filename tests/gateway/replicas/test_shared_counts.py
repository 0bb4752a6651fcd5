"""Gateways tell each other of the work that they have at replicas; nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from gateway.call.meter import Meter
from gateway.catalog.catalog import Catalog
from gateway.catalog.fleet import (
    FleetKeeper,
    PublishedPool,
    PublishedReplica,
    _Fleet,
    outside_id,
)
from gateway.replicas.placement import UNTOLD_MAX, Chosen, Computed, OpenPlace, Placement
from gateway.replicas.shared_counts import GATEWAYS_KEY, LEASE_S, SharedCounts, work_key
from gateway.replicas.shared_prefixes import PREFIXES_KEY, ROUNDS_MAX
from routing.replicas.blocks import NO_CHAIN, chain_of
from routing.replicas.work import Work
from routing.types import ReplicaState
from tests.routing.fleets import NOW_S, external

PROMPT = Work(1, 300, 300, 50)
GONE = "redis://127.0.0.1:1"


class Gateway:
    def __init__(self, redis: Redis, name: str, clock: Callable[[], float] = lambda: NOW_S) -> None:
        self.catalog = Catalog(1, {}, (), {})
        self.fleet = FleetKeeper(redis, lambda: self.catalog, lambda _: None, clock, poll_s=1.0)
        self.placement = Placement(Random(1))
        self.counts = SharedCounts(
            redis, self.placement, self.fleet, gateway_id=name, every_s=1.0, clock=clock
        )

    def open(self, replica_id: str = "r1") -> OpenPlace:
        return OpenPlace(self.placement, Chosen(replica_id, "http://x", PROMPT, NO_CHAIN, 0))


async def flush(*gateways: Gateway) -> None:
    """Until all know of all: one that is new is heard the time after it was seen."""
    for gateway in gateways * 3:
        await gateway.counts.flush()


async def test_work_of_every_other_gateway_is_added_up(redis: Redis) -> None:
    a, b, c = (Gateway(redis, name) for name in "abc")
    first, second = a.open(), b.open()
    b.open("r2")
    await flush(a, b, c)
    assert c.placement.others == {"r1": PROMPT.beside(PROMPT), "r2": PROMPT}
    assert a.placement.others == {"r1": PROMPT, "r2": PROMPT}
    first.close()
    second.close()
    await flush(a, b, c)
    assert c.placement.others == {"r2": PROMPT}


async def test_a_decision_sees_what_other_gateways_have_open(redis: Redis) -> None:
    a, b = Gateway(redis, "a"), Gateway(redis, "b")
    replicas = tuple(PublishedReplica(name, "", ReplicaState.WARM, 0) for name in ("r1", "r2"))
    for gateway in (a, b):
        gateway.fleet.publish(_Fleet(1, 0, (PublishedPool("p", 2, replicas=replicas),)))
    a.fleet.began("r1", "p")
    places = [b.open("r1"), b.open("r2"), b.open("unknown")]
    await flush(a, b)
    assert a.fleet.snapshot().in_flight == {"p": 3} and a.fleet.in_flight == {"r1": 1}
    for place in places:
        place.close()
    await flush(a, b)
    assert a.fleet.snapshot().in_flight == {"p": 1}


async def test_gateway_without_open_work_leaves_nothing_behind(redis: Redis) -> None:
    a, b = Gateway(redis, "a"), Gateway(redis, "b")
    place = a.open()
    await flush(a, b)
    place.close()
    await flush(a, b)
    assert b.placement.others == {}
    assert await redis.keys(f"{GATEWAYS_KEY}*") == []


async def test_work_of_a_gateway_that_died_is_forgotten_with_its_lease(redis: Redis) -> None:
    dead, other = Gateway(redis, "dead"), Gateway(redis, "other")
    dead.open()
    await flush(dead, other)
    assert other.placement.others == {"r1": PROMPT}
    assert 0 < await redis.pttl(work_key("dead")) <= LEASE_S * 1000
    await redis.delete(work_key("dead"))  # as Redis does once the lease is over
    await flush(other)
    assert other.placement.others == {}
    assert await redis.smembers(GATEWAYS_KEY) == set()


async def test_what_was_heard_counts_for_its_lease_while_redis_is_away(redis: Redis) -> None:
    passed = [0.0]
    a, b = Gateway(redis, "a"), Gateway(redis, "b", lambda: NOW_S + passed[0])
    a.open()
    await flush(a, b)
    b.counts._redis = Redis.from_url(GONE)
    await b.counts.flush()
    assert b.placement.others == {"r1": PROMPT}
    passed[0] = LEASE_S + 0.1
    await b.counts.flush()
    assert b.placement.others == {}


async def test_what_another_version_tells_is_passed_over(redis: Redis) -> None:
    await redis.sadd(GATEWAYS_KEY, "newer")
    await redis.set(work_key("newer"), b'{"r1": {"calls": 3}}')
    one = Gateway(redis, "one")
    await flush(one)
    assert one.placement.others == {}


def computed(gateway: Gateway, replica_id: str, prompt: bytes) -> None:
    place = OpenPlace(gateway.placement, Chosen(replica_id, "", PROMPT, chain_of(prompt, "org"), 0))
    place.computed(Meter(300))
    place.close()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["r1", "r2"]), st.integers(0, 3))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
async def test_gateways_know_the_same_of_caches_once_they_have_told_each_other(
    redis: Redis, calls: list[tuple[int, str, int]]
) -> None:
    await redis.delete(PREFIXES_KEY)
    gateways = [Gateway(redis, name) for name in "abc"]
    for number, replica_id, prompt in calls:
        computed(gateways[number], replica_id, bytes([prompt]) * 600)
        await gateways[number].counts.flush()
    await flush(*gateways)
    for replica_id in ("r1", "r2"):
        for prompt in range(4):
            chain = chain_of(bytes([prompt]) * 600, "org")
            known = {g.placement.prefixes.blocks_known(replica_id, chain) for g in gateways}
            was_there = any(call[1:] == (replica_id, prompt) for call in calls)
            assert known == {2 if was_there else 0}


async def test_what_could_not_be_told_of_caches_is_told_once_redis_is_back(redis: Redis) -> None:
    a, b = Gateway(redis, "a"), Gateway(redis, "b")
    computed(a, "r1", b"x" * 600)
    there, a.counts._prefixes._redis = a.counts._prefixes._redis, Redis.from_url(GONE)
    await a.counts.flush()
    a.counts._prefixes._redis = there
    await flush(a, b)
    assert b.placement.prefixes.blocks_known("r1", chain_of(b"x" * 600, "org")) == 2
    assert not a.placement.untold


async def test_what_is_told_of_caches_is_bounded(redis: Redis) -> None:
    one = Gateway(redis, "one")
    for number in range(UNTOLD_MAX + 10):
        computed(one, "r1", number.to_bytes(2, "big") * 300)
    assert len(one.placement.untold) == UNTOLD_MAX
    for _ in range(ROUNDS_MAX + 10):
        computed(one, "r1", b"x" * 600)
        await one.counts.flush()
    assert await redis.xlen(PREFIXES_KEY) == ROUNDS_MAX


async def test_caches_of_replicas_that_are_gone_are_forgotten(redis: Redis) -> None:
    one = Gateway(redis, "one")
    for name in ("r1", "r2"):
        one.placement.prefixes.remember(name, chain_of(b"x" * 600, "org"))
    left = PublishedReplica("r1", "http://x", ReplicaState.WARM, 0)
    one.fleet.publish(_Fleet(1, 0, (PublishedPool("p", 1, replicas=(left,)),)))
    await one.counts.flush()
    assert len(one.placement.prefixes) == 2


async def test_what_a_server_outside_has_is_told_with_its_end_and_outlives_a_round(
    redis: Redis,
) -> None:
    a, b = Gateway(redis, "a"), Gateway(redis, "b")
    place, chain = outside_id("far"), chain_of(b"x" * 600, "org")
    replicas = (PublishedReplica("r1", "", ReplicaState.WARM, 0),)
    for gateway in (a, b):
        gateway.catalog = Catalog(1, {}, (external("far"),), {})
        gateway.fleet.publish(_Fleet(1, 0, (PublishedPool("p", 1, replicas=replicas),)))
    a.placement.remember(Computed(place, chain, 0, NOW_S + 5.0))
    await flush(a, b)
    known = b.placement.prefixes.blocks_known
    assert [known(place, chain, NOW_S + s) for s in (0.0, 4.9, 5.0)] == [2, 2, 0]
    b.catalog = Catalog(2, {}, (), {})
    await flush(b)
    assert known(place, chain, NOW_S) == 0, "the pool is gone"
