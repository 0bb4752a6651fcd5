"""How long every replica has lived, in reports to the ledger. The cost of capacity is computed from
them.

A report says all of a life so far: when it began, when it was warm, until when it was seen, how
much of that it computed, and the price of its pool. So the next report makes good a lost one, and a
report that comes twice adds nothing. `look` is pure. `Lives` keeps open lives in Redis, in the
transaction that reports them, so that the next leader goes on where one was killed. Guards the law
that no second of a replica is lost, and none counts twice.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace
from redis.asyncio import Redis

from workers.catalog import Catalog
from workers.controller.replica_api import ReplicaStats
from workers.ray.app_names import pool_of
from workers.ray.serve_api import ServeDetails

LIVES_KEY = "sluice:lives"
"""The stream of reports, which the ledger empties."""
OPEN_KEY = "sluice:lives:open"
"""By replica the last report of those that have not ended."""
ENDED_KEY = "sluice:lives:ended"
"""By replica the last report of those that ended less than `ENDED_KNOWN_US` ago."""
ENDED_KNOWN_US = 600_000_000
"""One that Ray names again within this time goes on where it ended: it was only out of sight."""
NONE_ENDED: Mapping[str, "LifeReport"] = MappingProxyType({})
UNSEEN_US = 5_000_000
"""A replica that was last seen longer ago than this, and is gone, ended when it was last seen. An
earlier leader may have seen it until its next report was due."""


class LifeReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of a replica's life that is known at `until_us`. `ready_us` is None until the replica is
    warm. `busy_us` is what it had computed at `answered_us`, its last answer, which is for the next
    leader alone: the ledger does not read it."""

    v: int = 1
    replica: str
    pool: str
    model: str
    nanousd_per_s: int
    started_us: int
    until_us: int
    ready_us: int | None = None
    busy_us: int = 0
    ended: bool = False
    answered_us: int = 0


@dataclass(frozen=True, slots=True)
class LiveReplica:
    """A replica that exists, or what is reported as one (`round.upkeep`). `stats` is None where it
    does not answer. It costs `price_share` of what its pool does, or a price of its own."""

    replica: str
    pool: str
    started_us: int
    stats: ReplicaStats | None = None
    price_share: float = 1.0
    node: str | None = None
    nanousd_per_s: int | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a second of a pool's replicas, and the model that they serve."""

    model: str
    nanousd_per_s: int


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a replica now, and the instant of its last report."""

    report: LifeReport
    reported_us: int = 0
    answered: ReplicaStats | None = None
    """What it last said to this leader. One that took calls then, and is gone next, is taken to
    have computed until it went: what it did is lost, and was no idling. So is one of an earlier
    leader that never answered this one: it may have taken calls."""


def look(
    lives: Mapping[str, Life],
    replicas: Iterable[LiveReplica],
    prices: Mapping[str, Price],
    *,
    at_us: int,
    every_us: int,
    ended: Mapping[str, LifeReport] = NONE_ENDED,
) -> tuple[dict[str, Life], list[LifeReport]]:
    """The lives after a look, and the reports for the ledger. A life is reported when it began, is
    warm, has another price, was not reported for a while, or ended. One of those that `ended` and
    is here again goes on: what it computed is never taken back."""
    after: dict[str, Life] = {}
    reports: list[LifeReport] = []
    for one in replicas:
        before = lives.get(one.replica)
        last = ended.get(one.replica) if before is None else None
        life = _seen(before if last is None else _again(last), one, prices, at_us)
        if life is not None:
            report = _to_tell(before, life, every_us)
            if report is not None:
                reports.append(report)
                life = dataclasses.replace(life, reported_us=report.until_us)
            after[one.replica] = life
    gone = [life for name, life in lives.items() if name not in after]
    reports += [_ended(life, at_us, every_us) for life in gone]
    return after, reports


def _again(last: LifeReport) -> Life:
    return Life(replace(last, ended=False), last.until_us)


def _seen(
    before: Life | None, one: LiveReplica, prices: Mapping[str, Price], at_us: int
) -> Life | None:
    """The life of a replica after one more look. A pool that was taken out of the catalog keeps its
    price. A pool that was never in it is not reported."""
    price = _price_of(one, prices)
    if before is None:
        if price is None:
            return None
        report = LifeReport(
            replica=one.replica,
            pool=one.pool,
            model=price.model,
            nanousd_per_s=price.nanousd_per_s,
            started_us=min(one.started_us, at_us),
            until_us=at_us,
        )
        return _answered(Life(report), one.stats)
    report = replace(before.report, until_us=max(at_us, before.reported_us + 1))
    if price is not None:
        report = replace(report, model=price.model, nanousd_per_s=price.nanousd_per_s)
    return _answered(dataclasses.replace(before, report=report), one.stats)


def _price_of(one: LiveReplica, prices: Mapping[str, Price]) -> Price | None:
    if one.nanousd_per_s is not None:
        return Price("", one.nanousd_per_s)
    price = prices.get(one.pool)
    if price is None:
        return None
    return Price(price.model, round(price.nanousd_per_s * one.price_share))


def _answered(life: Life, stats: ReplicaStats | None) -> Life:
    if stats is None or stats.warm_ms is None or stats == life.answered:
        return life
    report = life.report
    ready_us = report.ready_us
    if ready_us is None:
        ready_us = max(report.started_us, report.until_us - stats.warm_ms * 1000)
    busy_us = max(report.busy_us, stats.busy_us_total)
    answered_us = report.until_us
    report = replace(report, ready_us=ready_us, busy_us=busy_us, answered_us=answered_us)
    return Life(report, life.reported_us, stats)


def _to_tell(before: Life | None, life: Life, every_us: int) -> LifeReport | None:
    report = life.report
    if before is None:
        return report
    if report.nanousd_per_s != before.report.nanousd_per_s:
        return replace(report, nanousd_per_s=before.report.nanousd_per_s, model=before.report.model)
    is_due = report.until_us - life.reported_us >= every_us
    return report if is_due or report.ready_us != before.report.ready_us else None


def _ended(life: Life, at_us: int, every_us: int) -> LifeReport:
    report, last = life.report, life.answered
    unseen_us = UNSEEN_US + (every_us if last is None else 0)
    until_us = at_us if at_us - report.until_us <= unseen_us else report.until_us
    until_us = max(until_us, life.reported_us + 1)
    if last is None:
        took_calls = report.ready_us is not None
    else:
        took_calls = not last.draining or last.running + last.queued > 0
    lost_us = max(0, until_us - (report.answered_us or report.until_us)) if took_calls else 0
    return replace(report, until_us=until_us, busy_us=report.busy_us + lost_us, ended=True)


def seen_in(
    details: ServeDetails,
    stats_of: Callable[[str], ReplicaStats | None],
    *,
    asleep_share: float = 1.0,
) -> list[LiveReplica]:
    """Every replica that takes up capacity, whatever its state: from when its process exists until
    Serve names it no more. One that sleeps costs `asleep_share` of its price."""
    return [
        LiveReplica(
            replica.replica_id,
            pool,
            int(replica.start_time_s * 1e6),
            stats := stats_of(replica.replica_id),
            asleep_share if stats is not None and stats.asleep else 1.0,
            replica.node_instance_id or None,
        )
        for name, app in details.applications.items()
        if (pool := pool_of(name)) is not None
        for deployment in app.deployments.values()
        for replica in deployment.replicas
        if replica.pid is not None
    ]


def prices_of(catalog: Catalog, at_us: int) -> dict[str, Price]:
    return {pool.name: Price(pool.model, pool.cost_at(at_us)) for pool in catalog.pools}


class Lives:
    """All lives as the leader knows them. Nothing is known before `begin`."""

    def __init__(self, redis: Redis, *, every_s: float) -> None:
        self._redis: Any = redis
        self._every_us = int(every_s * 1e6)
        self._lives: dict[str, Life] | None = None
        self._ended: dict[str, LifeReport] = {}

    def begin(self) -> None:
        """Start leading: the open lives are read from Redis."""
        self._lives = None

    async def note(
        self, replicas: Iterable[LiveReplica], prices: Mapping[str, Price], *, at_us: int
    ) -> tuple[Mapping[str, Life], Mapping[str, Life]]:
        """Report a look to the ledger. Returns the lives before and after it. Raises
        redis.RedisError, and forgets the look then."""
        if (before := self._lives) is None:
            before = await self._open()
            self._ended = {each.replica: each for each in await self._reports(ENDED_KEY)}
        after, reports = look(
            *(before, replicas, prices), at_us=at_us, every_us=self._every_us, ended=self._ended
        )
        await self._tell(reports)
        self._lives = after
        await self._know_ended(after, reports, at_us)
        return before, after

    async def _know_ended(
        self, after: Mapping[str, Life], reports: Iterable[LifeReport], at_us: int
    ) -> None:
        known = self._ended | {each.replica: each for each in reports if each.ended}
        self._ended = {
            name: each
            for name, each in known.items()
            if name not in after and at_us - each.until_us < ENDED_KNOWN_US
        }
        if forgotten := known.keys() - self._ended.keys():
            await self._redis.hdel(ENDED_KEY, *forgotten)

    async def leave(self) -> None:
        """Report everything that is known, because no controller may look again for a while."""
        lives = self._lives or {}
        await self._tell(
            [life.report for life in lives.values() if life.report.until_us > life.reported_us]
        )
        self._lives = None

    async def _open(self) -> dict[str, Life]:
        reports = await self._reports(OPEN_KEY)
        return {report.replica: Life(report, report.until_us) for report in reports}

    async def _reports(self, key: str) -> list[LifeReport]:
        entries = await self._redis.hgetall(key)
        return [msgspec.json.decode(raw, type=LifeReport) for raw in entries.values()]

    async def _tell(self, reports: Iterable[LifeReport]) -> None:
        """Write the reports, all of them or none."""
        pipe = self._redis.pipeline(transaction=True)
        for report in reports:
            payload = msgspec.json.encode(report)
            pipe.xadd(LIVES_KEY, {"p": payload})
            if report.ended:
                pipe.hdel(OPEN_KEY, report.replica)
                pipe.hset(ENDED_KEY, report.replica, payload)
            else:
                pipe.hset(OPEN_KEY, report.replica, payload)
        if len(pipe):
            await pipe.execute()
