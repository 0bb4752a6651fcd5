"""What is known of a pool's calls besides how many wait or run."""

from collections.abc import Mapping, Sequence

from routing.types import CapacityClass
from workers.autoscaling.demand import Demand, Due, PoolOrder, TierQueue
from workers.autoscaling.keep_alive import keep_usd_per_s
from workers.autoscaling.rungs import RungCosts, Stay, stay
from workers.catalog import Pool
from workers.controller.intentions import Intentions
from workers.controller.paces import Paces
from workers.controller.replica_api import ReplicaStats
from workers.controller.seasons import Seasons
from workers.settings import ControllerSettings

NANOUSD_PER_USD = 1_000_000_000


class Demands:
    """Call `demand` once a round for each pool."""

    def __init__(
        self, paces: Paces, intentions: Intentions, seasons: Seasons, knobs: ControllerSettings
    ) -> None:
        self._paces = paces
        self._intentions = intentions
        self._seasons = seasons
        self._knobs = knobs

    def demand(
        self,
        pool: Pool,
        stats: Mapping[str, ReplicaStats],
        *,
        due: Sequence[Due],
        queues: Sequence[TierQueue],
        order: PoolOrder | None,
        load: int,
        at_ms: int,
    ) -> Demand:
        self._paces.note(pool.name, stats)
        self._paces.note_load(pool.name, is_busy=load > 0, at_ms=at_ms)
        way = self._stay(pool, at_ms)
        return Demand(
            tuple(due),
            tuple(queues),
            begun=self._paces.begun(pool.name),
            pace=self._paces.pace(pool.name),
            keep_ms=_ms(way.warm_s),
            sleep_ms=_ms(way.asleep_s),
            order=order,
            forecast=self._seasons.note(
                pool,
                at_ms=at_ms,
                load=load,
                begun=self._paces.begun(pool.name),
                start_s=self._intentions.cold_start_s(pool),
            ),
        )

    def _stay(self, pool: Pool, at_ms: int) -> Stay:
        warm_per_s = keep_usd_per_s(
            pool.cost_at(at_ms * 1000) / NANOUSD_PER_USD,
            is_reserved=pool.capacity_class == CapacityClass.RESERVED,
        )
        sleeps = pool.sleep_idle_s is not None
        costs = RungCosts(
            start_s=self._intentions.cold_start_s(pool),
            wake_s=self._intentions.wake_s(pool),
            warm_per_s=warm_per_s,
            asleep_per_s=warm_per_s * self._knobs.sleep_cost_share if sleeps else None,
            wait_per_s=self._knobs.wait_usd_per_s,
        )
        return stay(self._paces.gaps(pool.name), costs)


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
