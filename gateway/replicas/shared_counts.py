"""What gateways tell each other of the work that each has outstanding at replicas.

Every gateway writes its own counters to a key of its own and reads those of the others, in one
pipeline each `every_s` seconds, beside the calls: no call waits for it. A key expires by itself
(Redis' clock), so what a gateway that died had open is forgotten after `LEASE_S`.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.types import UNREADABLE
from gateway.catalog.fleet import FleetKeeper
from gateway.replicas.placement import Placement, together
from gateway.replicas.shared_prefixes import SharedPrefixes
from routing.replicas.work import Work
from routing.types import Clock

log = logging.getLogger(__name__)

GATEWAYS_KEY = "sluice:work"
"""The set of gateways that may have work outstanding."""
LEASE_S = 1.5
"""How long what a gateway said counts."""

Counts = dict[str, Work]


def work_key(gateway_id: str) -> str:
    return f"{GATEWAYS_KEY}:{gateway_id}"


class SharedCounts:
    def __init__(
        self,
        redis: Redis,
        placement: Placement,
        fleet: FleetKeeper,
        *,
        gateway_id: str,
        every_s: float,
        clock: Clock,
    ) -> None:
        self._redis = redis
        self._placement = placement
        self._fleet = fleet
        self._own_id = gateway_id
        self._every_s = every_s
        self._clock = clock
        self._prefixes = SharedPrefixes(redis, placement, gateway_id)
        self._others: Sequence[str] = ()
        self._has_published = False
        self._heard_s = clock()
        self._is_away = False

    async def run(self) -> None:
        while True:
            await self.flush()
            await asyncio.sleep(self._every_s)

    async def flush(self) -> None:
        """Tell our counters and hear those of others. What was heard counts for `LEASE_S`, also
        while Redis is away."""
        placement = self._placement
        placement.look()
        if places := self._fleet.places:
            placement.prefixes.keep_only(places)
        try:
            placement.others = together(await self._exchanged(placement.outstanding.by_replica))
            await self._prefixes.exchange()
            self._heard_s = self._clock()
            self._is_away = False
        except RedisError as away:
            if not self._is_away:
                log.warning("work of other gateways cannot be read: %s", away)
            self._is_away = True
            if self._clock() - self._heard_s > LEASE_S:
                placement.others = {}
        self._fleet.hear({name: work.calls for name, work in placement.others.items()})

    async def _exchanged(self, own: Mapping[str, Work]) -> Sequence[Counts]:
        """The counters of the others that were known last time. A new one is heard the time after.
        One that says nothing is taken off the list, until it has work again and says so."""
        others = self._others
        pipeline = self._redis.pipeline(transaction=False)
        if own:
            body = msgspec.json.encode(own)
            pipeline.set(work_key(self._own_id), body, px=round(LEASE_S * 1000))
            pipeline.sadd(GATEWAYS_KEY, self._own_id)
        elif self._has_published:
            pipeline.delete(work_key(self._own_id))
            pipeline.srem(GATEWAYS_KEY, self._own_id)
        if others:
            pipeline.mget([work_key(each) for each in others])
        pipeline.smembers(GATEWAYS_KEY)
        answers = await pipeline.execute()
        self._has_published = bool(own)
        members = {member.decode() for member in answers[-1]}
        self._others = sorted(members - {self._own_id})
        heard = dict(zip(others, answers[-2], strict=True)) if others else {}
        silent = [each for each, counts in heard.items() if counts is None and each in members]
        if silent:
            await self._redis.srem(GATEWAYS_KEY, *silent)
        return [_read(counts) for counts in heard.values() if counts is not None]


def _read(counts: bytes) -> Counts:
    """What another gateway told. One of another version tells what is not understood: nothing."""
    try:
        return msgspec.json.decode(counts, type=Counts)
    except UNREADABLE:
        return {}
