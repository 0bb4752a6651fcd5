"""Calls run while Redis is killed and wiped under them: each ends with one exact event.

The gateway's part and the ledger's part are the real functions; SQL is a dictionary that reads the
stream. A seed gives the moments of the kills.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import Admitted, Booked, LimitsUnavailable, Renewed, Spent
from billing.recovery.recovery import LiveCall, reannounce, replay_spool
from billing.spool.spool import Spool, replay
from billing.types import SettledCall, Usage, UsageSource, decode_settled
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import MONTH, ORG, SCOPES, SHARD, scope_state, unlimited
from tests.redis_server import RedisServer

GATEWAY = "gw-1"
CALLERS = 12
CALLS_EACH = 12
DISASTERS = 4
GIVE_UP_S = 30.0


def rate(*, model: str, tier: str, batch: bool, usage: Usage, price_version: str) -> int:
    return usage.total


async def until(succeeds: Callable[[], Awaitable[bool]]) -> None:
    while not await succeeds():  # noqa: ASYNC110 - Redis has no event for being back
        await asyncio.sleep(0.01)


class Gateway:
    """Admits, relays and settles as the real one does: spool first, and settle until it is done."""

    def __init__(self, holds: Holds, spool: Spool, rng: random.Random) -> None:
        self.holds = holds
        self.spool = spool
        self.rng = rng
        self.live: dict[str, LiveCall] = {}
        self.ended: dict[str, SettledCall] = {}

    async def caller(self, name: int) -> None:
        for number in range(CALLS_EACH):
            await self.call(f"req_{name}_{number}")

    async def call(self, rid: str) -> None:
        opened = opened_call(rid)
        await until(lambda: self.admits(rid))
        self.live[rid] = LiveCall(opened, unlimited(), opened.hold_nanousd, None)
        self.spool.opened(opened)
        await asyncio.sleep(self.rng.uniform(0, 0.05))
        await self.renew(rid)
        await asyncio.sleep(self.rng.uniform(0, 0.05))
        settled = settled_call(opened, self.rng.randint(0, 2_000))
        self.spool.closed(settled)
        self.ended[rid] = settled
        del self.live[rid]
        await until(lambda: self.settles(settled))

    async def admits(self, rid: str) -> bool:
        try:
            answer = await self.holds.admit(opened_call(rid), unlimited(), lease_s=60)
        except LimitsUnavailable:
            return False
        return isinstance(answer, Admitted)

    async def renew(self, rid: str) -> None:
        seen = checkpoint(1)
        self.spool.checkpoint(rid, seen)
        try:
            renewed = await self.holds.renew(
                rid, ORG, lease_s=60, topup_nanousd=500, checkpoint=seen
            )
        except LimitsUnavailable:
            return
        if isinstance(renewed, Renewed):
            self.live[rid] = LiveCall(
                opened_call(rid), unlimited(), renewed.held_nanousd, checkpoint(1)
            )

    async def settles(self, settled: SettledCall) -> bool:
        try:
            await self.holds.settle(settled)
        except LimitsUnavailable:
            return False
        return True


class Ledger:
    def __init__(self, redis: Redis, holds: Holds) -> None:
        self.redis = redis
        self.holds = holds
        self.booked: dict[str, Booked] = {}

    async def known(self, rids: Sequence[str]) -> dict[str, Booked]:
        return {rid: self.booked[rid] for rid in rids if rid in self.booked}

    async def write(self) -> str:
        """Read the whole stream; the id of its end."""
        last_id = await self.holds.last_stream_id(SHARD)
        for _, fields in await self.redis.xrange(keys.usage_key(SHARD), max=last_id):
            if fields[b"k"] == b"settled":
                call = decode_settled(fields[b"p"])
                before = self.booked.get(call.rid)
                if before is None or before.source is UsageSource.ESTIMATED:
                    self.booked[call.rid] = Booked(call.source, call.amount_nanousd)
        return last_id

    async def prime(self, epoch: str) -> None:
        while True:
            last_id = await self.write()
            total = sum(booked.amount_nanousd for booked in self.booked.values())
            sums = {scope: Spent(total, {MONTH: total}) for scope in SCOPES}
            if await self.holds.prime(SHARD, sums, last_id, epoch):
                return


async def recover(root: Path, gateway: Gateway, ledger: Ledger) -> None:
    epoch = f"{await ledger.holds.run_id()}:test"
    await ledger.holds.begin_priming(SHARD, epoch)
    before = set(gateway.live)
    calls = await asyncio.to_thread(replay, root, GATEWAY)
    await reannounce(
        list(gateway.live.values()), holds=gateway.holds, known=ledger.known, lease_s=60
    )
    await replay_spool(
        calls,
        holds=gateway.holds,
        known=ledger.known,
        rate=rate,
        now_us=lambda: opened_call().admitted_us,
        live=before | set(gateway.live),
    )
    await ledger.prime(epoch)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_every_call_ends_exactly_once_whatever_redis_suffers(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    print(f"seed {seed}")
    holds = Holds(redis, timeout_s=2.0)
    ledger = Ledger(redis, holds)
    async with asyncio.timeout(GIVE_UP_S), Spool(tmp_path, GATEWAY) as spool:
        gateway = Gateway(holds, spool, rng)
        await recover(tmp_path, gateway, ledger)
        callers = asyncio.gather(*(gateway.caller(name) for name in range(CALLERS)))
        for _ in range(DISASTERS):
            await asyncio.sleep(rng.uniform(0.02, 0.2))
            if rng.random() < 0.5:
                await ledger.write()
            await asyncio.to_thread(rng.choice([redis_server.restart, redis_server.wipe]))
            await recover(tmp_path, gateway, ledger)
        await callers
        await ledger.write()
    assert len(gateway.ended) == CALLERS * CALLS_EACH
    assert ledger.booked == {
        rid: Booked(UsageSource.EXACT, settled.amount_nanousd)
        for rid, settled in gateway.ended.items()
    }
    total = sum(settled.amount_nanousd for settled in gateway.ended.values())
    for scope in SCOPES:
        money = await holds.money(ORG, scope)
        assert (money.held_nanousd, money.spent.total_nanousd) == (0, total)
        assert (await scope_state(redis, scope)).running == 0
    assert await holds.open_count(SHARD) == 0
