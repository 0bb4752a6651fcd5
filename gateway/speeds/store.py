"""What was learned of pools, kept in Redis beside the calls, so that a gateway that starts does not
guess again. Each target is a field of one hash: gateways that learned of different pools lose
nothing, and of one that several learned the last word stays."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.types import UNREADABLE
from gateway.speeds.learner import Learner
from routing.economics.predictor import TargetLearned

log = logging.getLogger(__name__)

SPEEDS_KEY = "sluice:speeds"
TTL_S = 7 * 24 * 3600
EVERY_S = 10.0


class SpeedStore:
    def __init__(self, redis: Redis, learner: Learner) -> None:
        self._redis = redis
        self._learner = learner
        self._taken: dict[str, int] = {}

    async def refresh(self) -> None:
        """Go on from what was kept; without Redis all is learned anew."""
        try:
            rows = cast(Mapping[bytes, bytes], await self._redis.hgetall(SPEEDS_KEY))
        except RedisError as away:
            log.warning("speeds: what was learned cannot be read: %s", away)
            return
        for name, raw in rows.items():
            try:
                target = msgspec.json.decode(raw, type=TargetLearned)
                self._learner.predictor.restore({name.decode(): target})
            except (*UNREADABLE, ValueError) as unreadable:
                log.warning("speeds: %s is learned anew: %s", name, unreadable)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Keep what has changed since the last time."""
        targets = self._learner.predictor.targets
        counts = {name: each.first.taken for name, each in targets.items() if each.first.taken}
        names = [name for name, count in counts.items() if self._taken.get(name) != count]
        if not names:
            return
        fields = {name: msgspec.json.encode(targets[name].learned()) for name in names}
        try:
            await self._redis.hset(SPEEDS_KEY, mapping=cast(Any, fields))
            await self._redis.expire(SPEEDS_KEY, TTL_S)
        except RedisError as away:
            log.warning("speeds: what was learned is not kept: %s", away)
            return
        self._taken = counts
