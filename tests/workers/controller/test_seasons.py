"""The memory of days outlives a controller, and a broken one is begun again."""

from typing import Any

import msgspec
from redis.asyncio import Redis

from tests.workers.autoscaling.test_forecast import NINE_MS, season_of
from workers.autoscaling.forecast import BIN_MS, DAY_MS, Season
from workers.catalog import Pool
from workers.controller.seasons import SEASONS_KEY, Seasons
from workers.settings import ControllerSettings

POOL = Pool(
    name="p",
    model="m",
    variant="m",
    base_url=None,
    min_replicas=0,
    max_replicas=4,
    initial_replicas=0,
    idle_s=120.0,
    num_cpus=1.0,
    num_gpus=0.0,
    engine=None,
    max_ongoing=8,
    cold_start_s=30.0,
    cost_nanousd_per_s=100_000,
    enabled=True,
)
KNOBS = ControllerSettings(wait_usd_per_s=0.01)
DAY = 4 * DAY_MS


def looked(seasons: Seasons, at_ms: int, load: int = 0) -> Any:
    return seasons.note(POOL, at_ms=at_ms, load=load, begun=0, start_s=30.0)


async def test_next_leader_goes_on_with_the_days_of_the_last(redis: Redis) -> None:
    await redis.hset(SEASONS_KEY, "p", msgspec.json.encode(season_of(3, level=20)))
    first = Seasons(redis, KNOBS)
    await first.resume()
    for at_ms in range(DAY, DAY + BIN_MS + 1, 1_000):
        looked(first, at_ms)
    await redis.delete(SEASONS_KEY)
    await first.save()
    second = Seasons(redis, KNOBS)
    await second.resume()
    assert looked(second, DAY + NINE_MS - 60_000).replicas == 3
    assert looked(second, DAY + NINE_MS - 7_200_000).replicas == 0


async def test_switch_stops_early_starts_and_goes_on_learning(redis: Redis) -> None:
    await redis.hset(SEASONS_KEY, "p", msgspec.json.encode(season_of(3, level=20)))
    off = Seasons(redis, KNOBS.model_copy(update={"forecast": False}))
    await off.resume()
    for at_ms in range(DAY, DAY + BIN_MS + 1, 1_000):
        assert looked(off, at_ms, load=5) is None
    await off.save()
    raw = await redis.hget(SEASONS_KEY, "p")
    assert raw is not None
    assert msgspec.json.decode(raw, type=Season).minutes[0].days == 4


async def test_unreadable_season_begins_again(redis: Redis) -> None:
    await redis.hset(SEASONS_KEY, mapping={"p": b"{", "q": msgspec.json.encode(Season())})
    seasons = Seasons(redis, KNOBS)
    await seasons.resume()
    assert looked(seasons, DAY) is None
