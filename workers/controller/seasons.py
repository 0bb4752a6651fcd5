"""When calls of each pool come, remembered over days in Redis, and the forecast of the next ones.

The leader keeps one small document a pool (`workers.autoscaling.forecast.Season`) and writes it
when five minutes have ended. The next leader goes on with it. One that cannot be read is begun
again: a pool without one is started by its calls alone.
"""

import logging
from dataclasses import dataclass, field
from typing import cast

import msgspec
from redis.asyncio import Redis

from workers.autoscaling.forecast import (
    Forecast,
    OpenMinutes,
    Season,
    Values,
    after_look,
    forecast,
)
from workers.catalog import Pool
from workers.settings import ControllerSettings

log = logging.getLogger(__name__)

SEASONS_KEY = "sluice:seasons"
"""By pool its season."""
NANOUSD_PER_USD = 1_000_000_000


@dataclass(slots=True)
class _Remembered:
    season: Season = field(default_factory=Season)
    running: OpenMinutes | None = None
    seen_ms: int = 0
    is_saved: bool = True


class Seasons:
    """Call `note` once a round for each pool, and `save` after it."""

    def __init__(self, redis: Redis, knobs: ControllerSettings) -> None:
        self._redis = redis
        self._knobs = knobs
        self._pools: dict[str, _Remembered] = {}

    async def resume(self) -> None:
        """Start leading with what earlier controllers saw. Raises redis.RedisError."""
        self._pools = {}
        seasons = cast(dict[bytes, bytes], await self._redis.hgetall(SEASONS_KEY))
        for key, raw in seasons.items():
            name = key.decode()
            try:
                season = msgspec.json.decode(raw, type=Season)
            except msgspec.DecodeError as odd:
                log.warning("the season of %s is unreadable and begins again: %s", name, odd)
                continue
            self._pools[name] = _Remembered(season)

    def note(
        self, pool: Pool, *, at_ms: int, load: int, begun: int, start_s: float
    ) -> Forecast | None:
        """Add one look: `load` calls are open, and `begun` were begun so far. Returns what is worth
        starting now for the calls that are expected."""
        followed = self._pools.setdefault(pool.name, _Remembered())
        season, followed.running = after_look(
            followed.season,
            followed.running,
            at_ms=at_ms,
            since_ms=followed.seen_ms,
            load=load,
            begun=begun,
        )
        followed.seen_ms = at_ms
        followed.is_saved &= season is followed.season
        followed.season = season
        if not self._knobs.forecast:
            return None
        return forecast(
            season,
            at_ms=at_ms,
            slots=pool.max_ongoing,
            most=max(pool.max_replicas, pool.min_replicas),
            values=Values(
                replica_usd_per_s=pool.cost_at(at_ms * 1000) / NANOUSD_PER_USD,
                wait_usd_per_s=self._knobs.wait_usd_per_s,
                start_ms=round(start_s * 1000),
                idle_ms=round(pool.idle_s * 1000),
            ),
        )

    async def save(self) -> None:
        """Write the seasons that changed. Raises redis.RedisError."""
        for name, followed in self._pools.items():
            if not followed.is_saved:
                await self._redis.hset(SEASONS_KEY, name, msgspec.json.encode(followed.season))
                followed.is_saved = True
