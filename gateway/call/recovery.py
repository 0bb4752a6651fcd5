"""This gateway's part in recovering: after its own death, and after Redis was lost.

Before the first call is served, the spool of the former life is replayed; whenever Redis has been
restarted or wiped, what still runs is announced to it again and what has ended is replayed. Only
then does the ledger open the shards for paid traffic. Guards law 4 with the ledger.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.limits.holds import Holds
from billing.limits.types import Booked, LimitsUnavailable
from billing.prices.rating import amounts_of_book
from billing.queries import known
from billing.recovery.primer import GATEWAYS_KEY, RECOVERED_KEY
from billing.recovery.recovery import LiveCall, reannounce, replay_spool
from billing.spool.spool import replay
from gateway.call.admission import Accounts
from gateway.call.outage import Outage
from gateway.catalog.catalog import CatalogKeeper
from gateway.idempotency.tapes import TapesUnavailable
from routing.types import Clock

log = logging.getLogger(__name__)

RECOVERING_KEY = "sluice:recovering"
LOOK_EVERY_S = 0.2
AWAY = (RedisError, SQLAlchemyError, LimitsUnavailable, TapesUnavailable, OSError)
SILENT_MS = 5_000
"""A gateway whose clock and heartbeat are older than this counts as gone."""
FORGOTTEN_MS = 24 * 3600 * 1000
"""One that is silent for longer leaves no trace in Redis; its spool is settled all the same."""


class Recovery:
    """Runs beside the calls; `accounts.is_ready` turns true at the end of the first round."""

    def __init__(
        self,
        *,
        redis: Redis,
        holds: Holds,
        announce_runs: Callable[[], Awaitable[None]],
        accounts: Accounts,
        outage: Outage,
        catalog: CatalogKeeper,
        ledger: Store,
        spool_root: Path,
        gateway_id: str,
        clock: Clock,
    ) -> None:
        self._redis = redis
        self._holds = holds
        self._announce_runs = announce_runs
        self._accounts = accounts
        self._outage = outage
        self._catalog = catalog
        self._ledger = ledger
        self._spool_root = spool_root
        self._gateway_id = gateway_id
        self._clock = clock

    async def run(self) -> None:
        """Heartbeat, and recover whenever Redis does not know that we have; until cancelled."""
        while True:
            try:
                await self.turn()
            except AWAY as away:
                log.warning("recovery waits: %s", away)
            await asyncio.sleep(LOOK_EVERY_S)

    async def turn(self) -> None:
        await self._announce()
        run_id = await self._holds.run_id()
        recovered = await self._redis.hget(RECOVERED_KEY, self._gateway_id)
        is_done = self._accounts.is_ready and recovered == run_id.encode()
        if is_done and not self._accounts.left_to_spool:
            return
        if self._catalog.prices.versions and self._accounts.credits.is_known:
            round_number = await self._redis.incr(self._round_key)
            await self._recover()
            await self._holds.prepare()
            await self._tell_recovered(run_id, round_number)
            self._accounts.is_ready = True

    async def _tell_recovered(self, run_id: str, round_number: int) -> None:
        """Unless Redis was emptied meanwhile: what was replayed before that is gone again, although
        it is the same process. Raises LimitsUnavailable then, or a WatchError."""
        async with self._redis.pipeline(transaction=True) as pipe:
            await pipe.watch(self._round_key)
            if await pipe.get(self._round_key) != b"%d" % round_number:
                raise LimitsUnavailable("Redis was emptied while this gateway recovered")
            pipe.multi()  # type: ignore[no-untyped-call]
            pipe.hset(RECOVERED_KEY, self._gateway_id, run_id)
            await pipe.execute()

    @property
    def _round_key(self) -> str:
        return f"{RECOVERING_KEY}:{self._gateway_id}"

    async def _announce(self) -> None:
        """Say that we live, and hear how many do: they share the limits if Redis goes away."""
        now_ms = round(self._clock() * 1000)
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(GATEWAYS_KEY, {self._gateway_id: now_ms})
            pipe.zcount(GATEWAYS_KEY, now_ms - SILENT_MS, "+inf")
            pipe.zrangebyscore(GATEWAYS_KEY, "-inf", now_ms - FORGOTTEN_MS)
            _, alive, silent = await pipe.execute()
        self._outage.gateways = max(1, alive)
        if silent:
            await self._forget([name.decode() for name in silent])

    async def _forget(self, names: Sequence[str]) -> None:
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zrem(GATEWAYS_KEY, *names)
            pipe.hdel(RECOVERED_KEY, *names)
            pipe.delete(*(f"{RECOVERING_KEY}:{name}" for name in names))
            await pipe.execute()

    async def _recover(self) -> None:
        before, spooled = set(self._accounts.open), self._accounts.left_to_spool
        await self._announce_runs()
        calls = await asyncio.to_thread(replay, self._spool_root, self._gateway_id)
        before_the_wipe = await reannounce(
            self._live_calls(),
            holds=self._holds,
            known=self._known,
            lease_s=self._accounts.lease_s,
        )
        self._accounts.remember_booked(before_the_wipe)
        outcomes = await replay_spool(
            calls,
            holds=self._holds,
            known=self._known,
            rate=amounts_of_book(self._catalog.prices),
            now_us=lambda: round(self._clock() * 1e6),
            live=before | set(self._accounts.open),
        )
        await self._accounts.settle_put_off()
        self._accounts.left_to_spool -= spooled
        self._outage.settled_but(self._accounts.knows)
        if outcomes:
            log.info("replayed the spool: %s", dict(outcomes))

    def _live_calls(self) -> list[LiveCall]:
        now_us = round(self._clock() * 1e6)
        return [
            LiveCall(
                opened=open_call.opened,
                scopes=open_call.scopes,
                held_nanousd=open_call.held_nanousd,
                checkpoint=open_call.checkpoint(now_us),
                purses=open_call.purses,
            )
            for open_call in self._accounts.open.values()
        ]

    async def _known(self, rids: Sequence[str]) -> Mapping[str, Booked]:
        return await asyncio.to_thread(known, self._ledger, rids)
