"""Recovery against a real Redis and a real spool; SQL is a dictionary of what was booked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import Booked, SettleState
from billing.prices.estimate import GATEWAY_LOST, cut_call, later
from billing.recovery.recovery import LiveCall, reannounce, replay_spool
from billing.spool.spool import Spool, replay
from billing.types import CallStatus, Usage, UsageSource, decode_settled
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import LEASE_S, ORG, SCOPES, SHARD, open_shard, unlimited
from tests.redis_server import RedisServer

GATEWAY = "gw-1"
NOW_US = opened_call().admitted_us + 5_000_000


def rate(*, model: str, tier: str, batch: bool, usage: Usage, price_version: str) -> int:
    return usage.prompt + 10 * usage.output


class Ledger:
    """What SQL would know, fed from the stream."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.booked: dict[str, Booked] = {}

    async def known(self, rids: Sequence[str]) -> dict[str, Booked]:
        return {rid: self.booked[rid] for rid in rids if rid in self.booked}

    async def write(self) -> None:
        for _, fields in await self._redis.xrange(keys.usage_key(SHARD)):
            if fields[b"k"] == b"settled":
                call = decode_settled(fields[b"p"])
                before = self.booked.get(call.rid)
                if before is None or before.source is UsageSource.ESTIMATED:
                    self.booked[call.rid] = Booked(call.source, call.amount_nanousd)


@pytest.fixture
def ledger(redis: Redis) -> Ledger:
    return Ledger(redis)


async def recover(root: Path, holds: Holds, ledger: Ledger, *live: str) -> dict[SettleState, int]:
    calls = replay(root, GATEWAY)
    return dict(
        await replay_spool(
            calls,
            holds=holds,
            known=ledger.known,
            rate=rate,
            now_us=lambda: NOW_US,
            live=frozenset(live),
        )
    )


async def admitted(holds: Holds, spool: Spool, *rids: str) -> None:
    for rid in rids:
        await holds.admit(opened_call(rid), unlimited(), lease_s=LEASE_S)
        spool.opened(opened_call(rid))


async def test_a_restarted_gateway_settles_exactly_what_ended_and_estimates_the_rest(
    redis: Redis, tmp_path: Path, ledger: Ledger
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    spool = Spool(tmp_path, GATEWAY)
    await admitted(holds, spool, "req_ended", "req_cut", "req_undispatched", "req_redis_knows_more")
    spool.closed(settled_call(opened_call("req_ended"), 700))
    spool.checkpoint("req_cut", checkpoint(2))
    await holds.renew(
        "req_redis_knows_more", ORG, lease_s=9, topup_nanousd=0, checkpoint=checkpoint(3)
    )
    spool.close()
    assert await recover(tmp_path, holds, ledger) == {SettleState.SETTLED: 4}
    await ledger.write()
    assert ledger.booked == {
        "req_ended": Booked(UsageSource.EXACT, 700),
        "req_cut": Booked(UsageSource.ESTIMATED, 44 + 200),
        "req_undispatched": Booked(UsageSource.ESTIMATED, 0),
        "req_redis_knows_more": Booked(UsageSource.ESTIMATED, 44 + 300),
    }
    assert await recover(tmp_path, holds, ledger) == {SettleState.ALREADY: 4}
    assert await holds.open_count(SHARD) == 0
    money = await holds.money(ORG, SCOPES[0])
    assert (money.held_nanousd, money.spent.total_nanousd) == (0, 700 + 244 + 344)


async def test_a_gateway_that_returns_after_the_reaper_corrects_its_estimate(
    redis: Redis, tmp_path: Path, ledger: Ledger
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    spool = Spool(tmp_path, GATEWAY)
    await admitted(holds, spool, "req_1")
    spool.closed(settled_call(opened_call("req_1"), 700))
    spool.close()
    await holds.settle(cut_call(opened_call("req_1"), checkpoint(1), ended_us=NOW_US, rate=rate))
    await ledger.write()
    assert await recover(tmp_path, holds, ledger) == {SettleState.CORRECTED: 1}
    await ledger.write()
    assert ledger.booked == {"req_1": Booked(UsageSource.EXACT, 700)}
    assert (await holds.money(ORG, SCOPES[0])).spent.total_nanousd == 700


async def test_after_a_wipe_live_calls_run_on_and_ended_ones_are_settled_from_the_spool(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, ledger: Ledger
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    spool = Spool(tmp_path, GATEWAY)
    await admitted(holds, spool, "req_live", "req_ended", "req_booked")
    spool.closed(settled_call(opened_call("req_ended"), 700))
    await holds.settle(settled_call(opened_call("req_booked"), 300))
    spool.closed(settled_call(opened_call("req_booked"), 300))
    await ledger.write()
    redis_server.wipe()
    live = LiveCall(opened_call("req_live"), unlimited(), 1_000, checkpoint(1))
    for _ in range(2):
        assert await reannounce([live], holds=holds, known=ledger.known, lease_s=LEASE_S) == {}
    assert await recover(tmp_path, holds, ledger, "req_live") == {
        SettleState.LOST: 1,
        SettleState.ALREADY: 1,
    }
    assert await recover(tmp_path, holds, ledger, "req_live") == {SettleState.ALREADY: 2}
    assert await holds.settle(settled_call(opened_call("req_live"), 50)) is SettleState.SETTLED
    await ledger.write()
    assert {rid: booked.amount_nanousd for rid, booked in ledger.booked.items()} == {
        "req_live": 50,
        "req_ended": 700,
        "req_booked": 300,
    }
    spool.close()


async def test_a_live_call_that_was_settled_before_the_wipe_is_not_announced_again(
    redis: Redis, ledger: Ledger
) -> None:
    holds = Holds(redis)
    await open_shard(holds)
    ledger.booked["req_1"] = Booked(UsageSource.ESTIMATED, 100)
    live = LiveCall(opened_call(), unlimited(), 1_000, None)
    booked = await reannounce([live], holds=holds, known=ledger.known, lease_s=LEASE_S)
    assert booked == {"req_1": Booked(UsageSource.ESTIMATED, 100)}
    assert await holds.read("req_1", ORG) is None
    state = await holds.settle(settled_call(opened_call(), 700), booked_nanousd=100)
    assert state is SettleState.LOST
    assert (await holds.money(ORG, SCOPES[0])).spent.total_nanousd == 600


async def test_a_lost_call_nobody_saw_the_end_of_is_estimated_from_the_spool(
    redis: Redis, tmp_path: Path, ledger: Ledger
) -> None:
    holds = Holds(redis)
    spool = Spool(tmp_path, GATEWAY)
    spool.opened(opened_call())
    spool.checkpoint("req_1", checkpoint(2))
    spool.close()
    assert await recover(tmp_path, holds, ledger) == {SettleState.LOST: 1}
    assert await recover(tmp_path, holds, ledger) == {SettleState.ALREADY: 1}
    await ledger.write()
    assert ledger.booked == {"req_1": Booked(UsageSource.ESTIMATED, 244)}


def test_a_cut_call_owes_what_its_last_checkpoint_saw() -> None:
    call = cut_call(opened_call(), checkpoint(3), ended_us=NOW_US, rate=rate)
    assert (call.usage, call.amount_nanousd) == (Usage(44, 0, 30), 344)
    assert (call.status, call.source) == (CallStatus.FAILED, UsageSource.ESTIMATED)
    assert call.error_code == GATEWAY_LOST
    undispatched = cut_call(opened_call(), None, ended_us=0, rate=rate)
    assert (undispatched.usage, undispatched.amount_nanousd) == (Usage(), 0)
    assert undispatched.ended_us == undispatched.admitted_us


def test_a_cut_call_owes_nothing_for_a_whole_answer_of_which_nothing_had_left() -> None:
    seen = checkpoint(3)
    call = cut_call(opened_call(stream=False), seen, ended_us=NOW_US, rate=rate)
    assert (call.usage, call.amount_nanousd) == (Usage(), 0)
    assert (call.model, call.pool) == (seen.model, seen.pool)


def test_of_two_checkpoints_the_one_that_saw_more_counts() -> None:
    assert later(checkpoint(1), checkpoint(2)) == later(checkpoint(2), checkpoint(1))
    assert later(None, checkpoint(1)) == checkpoint(1)
    assert later(None, None) is None
