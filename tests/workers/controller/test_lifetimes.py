"""What the ledger is told of replicas' lives, whoever leads and whoever is killed."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from workers.controller.lifetimes import (
    ENDED_KEY,
    ENDED_KNOWN_US,
    LIVES_KEY,
    OPEN_KEY,
    UNSEEN_US,
    Life,
    LifeReport,
    LiveReplica,
    Lives,
    Price,
    look,
    seen_in,
)
from workers.controller.replica_api import ReplicaStats
from workers.ray.serve_api import AppDetails, DeploymentDetails, ReplicaDetails, ServeDetails

S = 1_000_000
EVERY_US = 60 * S
PRICES = {"p": Price("m", 2_000)}


def replica(stats: ReplicaStats | None = None, started_us: int = S) -> LiveReplica:
    return LiveReplica("r", "p", started_us, stats)


def warm(warm_ms: int, busy_us: int = 0, *, draining: bool = False) -> ReplicaStats:
    return ReplicaStats(
        running=0, queued=0, busy_us_total=busy_us, warm_ms=warm_ms, draining=draining
    )


def looked(
    *looks: tuple[int, list[LiveReplica]], lives: dict[str, Life] | None = None
) -> tuple[dict[str, Life], list[LifeReport]]:
    lives, reports = lives or {}, []
    for at_us, seen in looks:
        lives, told = look(lives, seen, PRICES, at_us=at_us, every_us=EVERY_US)
        reports += told
    return lives, reports


def test_a_life_is_told_when_it_begins_when_it_is_warm_and_when_it_ends() -> None:
    _, reports = looked(
        (2 * S, [replica()]),
        (3 * S, [replica()]),
        (5 * S, [replica(warm(1000))]),
        (6 * S, [replica(warm(2000, busy_us=300, draining=True))]),
        (7 * S, []),
    )
    told = [(r.until_us, r.ready_us, r.busy_us, r.ended) for r in reports]
    assert told == [(2 * S, None, 0, False), (5 * S, 4 * S, 0, False), (7 * S, 4 * S, 300, True)]
    assert {(r.started_us, r.pool, r.model, r.nanousd_per_s) for r in reports} == {
        (S, "p", "m", 2_000)
    }


def test_a_quiet_life_is_told_of_every_while() -> None:
    _, reports = looked(*((at * S, [replica()]) for at in range(2, 130)))
    assert [r.until_us // S for r in reports] == [2, 62, 122]


def test_another_price_holds_from_when_it_is_seen() -> None:
    lives, _ = looked((2 * S, [replica()]))
    lives, (told,) = look(lives, [replica()], {"p": Price("m", 9)}, at_us=4 * S, every_us=EVERY_US)
    assert (told.until_us, told.nanousd_per_s) == (4 * S, 2_000)
    _, (last,) = look(lives, [], {}, at_us=6 * S, every_us=EVERY_US)
    assert (last.until_us, last.nanousd_per_s, last.ended) == (6 * S, 9, True)


def test_a_replica_that_is_lost_while_it_takes_calls_computed_until_then() -> None:
    """Since it last answered: a slow one is seen on, and says nothing new."""
    slow = warm(1000, busy_us=400_000)
    _, reports = looked(
        (2 * S, [replica(warm(0))]),
        (3 * S, [replica(slow)]),
        (4 * S, [replica(slow)]),
        (5 * S, []),
    )
    assert (reports[-1].until_us, reports[-1].busy_us) == (5 * S, 2_400_000)


def test_a_replica_that_went_while_nobody_looked_ended_when_it_was_last_seen() -> None:
    _, reports = looked((2 * S, [replica()]), (3 * S, [replica()]), (300 * S, []))
    assert reports[-1].ended and reports[-1].until_us == 3 * S


def test_a_replica_that_lived_on_while_nobody_looked_is_told_of_whole() -> None:
    _, reports = looked((2 * S, [replica()]), (300 * S, [replica()]))
    assert [r.until_us // S for r in reports] == [2, 300]


def test_a_clock_that_steps_back_takes_no_second_back() -> None:
    _, reports = looked((100 * S, [replica()]), (40 * S, [replica(warm(0))]), (50 * S, []))
    untils = [r.until_us for r in reports]
    assert untils == sorted(set(untils)) and untils[0] == 100 * S


def test_a_pool_that_leaves_the_catalog_costs_on_and_one_that_never_was_in_it_costs_nothing() -> (
    None
):
    lives, _ = looked((2 * S, [replica()]))
    lives, _ = look(lives, [replica()], {}, at_us=3 * S, every_us=EVERY_US)
    assert lives["r"].report.nanousd_per_s == 2_000
    assert looked((2 * S, [LiveReplica("s", "unknown", S)]))[1] == []


def test_every_replica_with_a_process_is_seen_whatever_its_state() -> None:
    replicas = [
        ReplicaDetails("starting", "a", "STARTING", 1.5, pid=1),
        ReplicaDetails("stopping", "b", "STOPPING", 1.0, pid=2),
        ReplicaDetails("pending", "c", "STARTING", 1.0),
    ]
    app = AppDetails(
        "pool-p.01234567",
        "RUNNING",
        deployments={"engine": DeploymentDetails("engine", "HEALTHY", replicas=tuple(replicas))},
    )
    found = seen_in(ServeDetails({app.name: app}), lambda _: None)
    assert [(one.replica, one.pool, one.started_us) for one in found] == [
        ("starting", "p", 1_500_000),
        ("stopping", "p", 1_000_000),
    ]


@given(
    steps=st.lists(
        st.tuples(st.integers(1, 90 * S), st.sampled_from(["look", "kill"])), max_size=20
    )
)
def test_a_killed_controller_neither_loses_nor_doubles_a_second(
    steps: list[tuple[int, str]],
) -> None:
    """Whoever begins anew knows only what was told; what was told last is never taken back."""
    at_us, lives, reports = 2 * S, dict[str, Life](), list[LifeReport]()
    for passed_us, what in [(1, "look"), *steps, (1, "look")]:
        at_us += passed_us
        if what == "kill":
            told = {r.replica: r for r in reports}
            lives = {name: Life(r, r.until_us) for name, r in told.items()}
            continue
        lives, told_now = look(lives, [replica()], PRICES, at_us=at_us, every_us=EVERY_US)
        reports += told_now
    _, (last,) = look(lives, [], PRICES, at_us=at_us + S, every_us=EVERY_US)
    untils = [r.until_us for r in [*reports, last]]
    assert untils == sorted(set(untils))
    assert {r.started_us for r in [*reports, last]} == {S}
    assert last.until_us == at_us + S


@given(
    steps=st.lists(
        st.tuples(st.integers(1, UNSEEN_US), st.booleans(), st.sampled_from(["look", "kill"])),
        max_size=20,
    )
)
def test_what_a_replica_computed_until_it_went_is_in_its_last_report(
    steps: list[tuple[int, bool, str]],
) -> None:
    """One that always computes, and answers or not, whichever leader looks next."""
    at_us, answered = 2 * S, warm(0)
    lives, reports = looked((at_us, [replica(answered)]))
    for passed_us, answers, what in steps:
        at_us += passed_us
        if what == "kill":
            told = {r.replica: r for r in reports}
            lives = {name: Life(r, r.until_us) for name, r in told.items()}
            continue
        busy_us = at_us - 2 * S
        said = warm(busy_us // 1000, busy_us) if answers else None
        lives, told_now = look(lives, [replica(said)], PRICES, at_us=at_us, every_us=EVERY_US)
        reports += told_now
    _, (last,) = look(lives, [], PRICES, at_us=at_us + S, every_us=EVERY_US)
    if reports[-1].until_us + EVERY_US + UNSEEN_US >= at_us + S:  # else nobody looked for so long
        assert last.until_us == at_us + S
        assert last.busy_us >= at_us - 2 * S


async def told_of(redis: Redis) -> list[dict[str, Any]]:
    return [msgspec.json.decode(fields[b"p"]) for _, fields in await redis.xrange(LIVES_KEY)]


async def test_the_next_leader_goes_on_where_one_was_killed(redis: Redis) -> None:
    killed = Lives(redis, every_s=60)
    await killed.note([replica()], PRICES, at_us=2 * S)
    await killed.note([replica(warm(500))], PRICES, at_us=3 * S)
    successor = Lives(redis, every_s=60)
    await successor.note([], PRICES, at_us=4 * S)
    last = (await told_of(redis))[-1]
    assert (last["started_us"], last["ready_us"], last["until_us"]) == (S, 2_500_000, 4 * S)
    assert last["ended"] and await redis.hlen(OPEN_KEY) == 0


async def test_a_replica_that_is_here_again_after_it_ended_goes_on_with_what_it_computed(
    redis: Redis,
) -> None:
    """A leader may have lost sight of it, and the next one may see it before it answers."""
    first, second = Lives(redis, every_s=60), Lives(redis, every_s=60)
    await first.note([replica(warm(500, busy_us=300))], PRICES, at_us=3 * S)
    await first.note([], PRICES, at_us=4 * S)
    await second.note([replica()], PRICES, at_us=9 * S)
    assert await redis.hlen(OPEN_KEY) == 1 and await redis.hlen(ENDED_KEY) == 0
    await second.note([], PRICES, at_us=10 * S)
    told = await told_of(redis)
    assert [each["until_us"] for each in told] == [3 * S, 4 * S, 9 * S, 10 * S]
    assert [each["ended"] for each in told] == [False, True, False, True]
    assert {each["started_us"] for each in told} == {S}
    busy = [each["busy_us"] for each in told]
    assert busy[0] == 300 and busy == sorted(busy)
    await second.note([], PRICES, at_us=10 * S + ENDED_KNOWN_US)
    assert await redis.hlen(ENDED_KEY) == 0


async def test_a_leader_that_leaves_tells_what_it_knows(redis: Redis) -> None:
    lives = Lives(redis, every_s=60)
    await lives.note([replica()], PRICES, at_us=2 * S)
    await lives.note([replica()], PRICES, at_us=9 * S)
    await lives.leave()
    assert [report["until_us"] for report in await told_of(redis)] == [2 * S, 9 * S]
    assert await redis.hlen(OPEN_KEY) == 1


def test_a_replica_that_sleeps_costs_its_share_from_when_it_is_seen_asleep_until_it_wakes() -> None:
    asleep = msgspec.structs.replace(warm(3000, draining=True), asleep=True)
    sleeper = LiveReplica("r", "p", S, asleep, price_share=0.25)
    _, reports = looked(
        (2 * S, [replica(warm(1000))]),
        (5 * S, [sleeper]),
        (9 * S, [replica(warm(8000))]),
        (10 * S, []),
    )
    told = [(r.until_us // S, r.nanousd_per_s) for r in reports]
    assert told == [(2, 2_000), (5, 2_000), (9, 500), (10, 2_000)]


def test_only_a_replica_that_says_that_it_sleeps_costs_a_share() -> None:
    one = ReplicaDetails("r", "a", "RUNNING", 1.5, pid=1)
    deployment = DeploymentDetails("engine", "HEALTHY", replicas=(one,))
    app = AppDetails("pool-p.01234567", "RUNNING", deployments={"engine": deployment})
    details = ServeDetails({app.name: app})
    for asleep, share in ((True, 0.2), (False, 1.0)):
        stats = ReplicaStats(running=0, queued=0, asleep=asleep)
        (seen,) = seen_in(details, {"r": stats}.get, asleep_share=0.2)
        assert seen.price_share == share
