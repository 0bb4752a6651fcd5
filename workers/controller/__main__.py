"""`python -m workers.controller`: the process that makes replica counts follow demand.

Owns the rhythm and the leadership, and leaves every decision to the reconciler. It looks for
waiting callers every `tick_s`, and at everything every `observe_s`. It looks at once when somebody
waits for a cold pool, and often while a count changes. A missing catalog or a lost Redis changes
nothing.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from workers.catalog import Catalog, read_catalog
from workers.controller.fleet_publisher import FleetPublisher
from workers.controller.lease import Lease
from workers.controller.lifetimes import Lives
from workers.controller.nodes import NodeWatch
from workers.controller.notices import NoticeTeller
from workers.controller.orders import PoolOrders
from workers.controller.queue import WaitingRoom
from workers.controller.reconciler import Reconciler
from workers.controller.seasons import Seasons
from workers.controller.weights import WeightsWatch
from workers.settings import SettingsError, WorkersSettings, load_settings
from workers.writer.service import LeaderRefused
from workers.writer.writes import Leader

log = logging.getLogger(__name__)

ASK_AGAIN_S = 1.0


class Controller:
    """One controller, leading or standing by; `redis` and `session` are the caller's."""

    def __init__(
        self,
        settings: WorkersSettings,
        *,
        redis: Redis,
        session: aiohttp.ClientSession,
        controller_id: str,
        now: Callable[[], float],
    ) -> None:
        self._knobs = settings.controller
        self._redis = redis
        self._now = now
        self._lease = Lease(redis, holder=controller_id, ttl_s=self._knobs.lease_ttl_s)
        self._rooms = WaitingRoom(redis, bound=self._knobs.waiting_max)
        self._orders = PoolOrders(redis)
        self._publisher = FleetPublisher(redis, controller_id=controller_id)
        self._lives = Lives(redis, every_s=self._knobs.life_report_s)
        self._seasons = Seasons(redis, self._knobs)
        self._reconciler = Reconciler(
            settings,
            session=session,
            publisher=self._publisher,
            nodes=NodeWatch(redis, settings.nodes),
            weights=WeightsWatch(redis),
            lives=self._lives,
            seasons=self._seasons,
            leader=lambda: self._lease.leader,
            now_ms=lambda: int(now() * 1000),
        )
        self._notices = (
            NoticeTeller(redis, settings.ray_file, lambda: int(now() * 1000))
            if settings.nodes
            else None
        )
        self._catalog: Catalog | None = None
        self._leader: Leader | None = None
        self._observed_s = float("-inf")
        self._trouble = ""
        self.ready = asyncio.Event()

    @property
    def leading(self) -> bool:
        return self._lease.leader is not None

    async def run(self, stopping: asyncio.Event) -> None:
        """Do rounds until `stopping`, then give up the lease. Raises the error that ended a
        round."""
        works = [self._lease.keep(), self._rounds(), stopping.wait()]
        if self._notices is not None:
            works.append(self._notices.run())
        tasks = [asyncio.ensure_future(work) for work in works]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _end(tasks)
            self._reconciler.leave()
            with suppress(RedisError):
                await self._lives.leave()
                await self._lease.release()

    async def _rounds(self) -> None:
        while True:
            await self._round_or_trouble()
            await asyncio.sleep(self._knobs.tick_s)

    async def _round_or_trouble(self) -> None:
        """Do one round. An error is logged when it changes, and the round is tried again."""
        trouble = ""
        try:
            await self._round_or_way()
            if self._lease.decided:
                self.ready.set()
        except (RedisError, OSError, msgspec.MsgspecError) as wrong:
            trouble = f"{type(wrong).__name__}: {wrong}"
        if trouble and trouble != self._trouble:
            log.warning("%s", trouble)
        self._trouble = trouble

    async def _round_or_way(self) -> None:
        try:
            await self._round()
        except LeaderRefused as refused:
            await self._give_way(refused)

    async def _round(self) -> None:
        if not await self._lead():
            return
        pools = () if self._catalog is None else self._catalog.own_pools
        waiting = await self._rooms.depths([pool.name for pool in pools])
        if not self._is_due(waiting):
            return
        self._observed_s = asyncio.get_running_loop().time()
        names = {pool.name for pool in pools}
        self._catalog = await read_catalog(self._redis) or self._catalog
        if self._catalog is None:
            await self._publisher.publish((), at_ms=int(self._now() * 1000))
            return
        new = [pool.name for pool in self._catalog.own_pools if pool.name not in names]
        waiting |= await self._rooms.depths(new)
        busy = [pool for pool, count in waiting.items() if count]
        due, queues = await self._rooms.due(busy), await self._rooms.queues(busy)
        orders = await self._orders.read([pool.name for pool in self._catalog.own_pools])
        await self._reconciler.run_once(self._catalog, waiting, due, orders, queues)

    async def _lead(self) -> bool:
        """Whether this controller acts now. It takes over when its lead begins."""
        leader = self._lease.leader
        if leader != self._leader and leader is not None:
            self._reconciler.begin(leader, await self._publisher.resume())
            log.info("leading with epoch %d", leader.epoch)
        self._leader = leader
        return leader is not None

    async def _give_way(self, refused: LeaderRefused) -> None:
        """Stop leading, as another controller has led since. Where Redis lost its counter this one
        may still hold the lease: it begins anew with a higher epoch."""
        log.warning("%s", refused)
        if not await self._lease.rise_above(refused.highest.epoch):
            await self._lease.release()

    def _is_due(self, waiting: Mapping[str, int]) -> bool:
        period_s = (
            self._knobs.observe_moving_s if self._reconciler.moving else self._knobs.observe_s
        )
        if asyncio.get_running_loop().time() - self._observed_s >= period_s:
            return True
        return any(n > 0 and self._reconciler.is_cold(pool) for pool, n in waiting.items())


async def serve(settings: WorkersSettings) -> None:
    """Run until SIGTERM or SIGINT; says `ready controller` after the first whole round."""
    stopping = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    redis: Redis = Redis.from_url(settings.redis_url)
    async with aiohttp.ClientSession() as session:
        controller = Controller(
            settings,
            redis=redis,
            session=session,
            controller_id=f"ctl-{os.urandom(4).hex()}",  # noqa: TID251 composition root
            now=time.time,  # noqa: TID251 composition root
        )
        announcing = asyncio.create_task(_announce(controller))
        try:
            await controller.run(stopping)
        finally:
            announcing.cancel()
            await redis.aclose()


async def _end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks until all have ended. Python 3.11's `wait_for`, inside redis-py, may lose a
    cancellation."""
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=ASK_AGAIN_S)


async def _announce(controller: Controller) -> None:
    await controller.ready.wait()
    role = "leading" if controller.leading else "standby"
    print(f"ready controller {role}", flush=True)


def main() -> int:
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        settings = load_settings()
    except SettingsError as wrong:
        print(f"controller: {wrong}", file=sys.stderr)
        return 1
    asyncio.run(serve(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
