"""Laws of purses: whatever is admitted, topped up, settled, corrected, wiped or primed in whatever
order and at whatever time, a purse holds what its open calls hold and has spent what the ledger
counts, and it refuses exactly what would be too much. An auditor predicts every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from billing.budgets.budget import Budget, share_of
from billing.budgets.windows import Calendar, Ever, Rolling, Unit, Window
from billing.limits.types import (
    Admitted,
    Dimension,
    Lost,
    PurseSpent,
    Refused,
    Renewed,
    RenewRefused,
    SettleState,
    purse_of,
)
from billing.types import BudgetShare, OpenedCall, UsageSource
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import ORG, SHARD, stopped_clock, unlimited
from tests.redis_server import RedisServer

T = TypeVar("T")
AMOUNT_NANOUSD = 4_000
AMOUNTS = st.integers(0, 2_000)
LEASE_S = 10**6
NAMES = ("day", "week", "ever", "hour", "alice")


def budget(name: str, window: Window) -> Budget:
    return Budget(name, ORG, "org:org_1", "", name, AMOUNT_NANOUSD, True, window, (), 1)


BUDGETS = {
    "day": budget("day", Calendar(Unit.DAY, "America/New_York")),
    "week": budget("week", Calendar(Unit.WEEK, "Asia/Kolkata")),
    "ever": budget("ever", Ever()),
    "hour": budget("hour", Rolling(3_600)),
    "alice": budget("alice", Rolling(86_400)),
}


@dataclass(frozen=True)
class Audited:
    """What the auditor knows about one call; `counted` is where it counts once it was settled."""

    shares: tuple[BudgetShare, ...]
    opened: OpenedCall
    held: int = 0
    amount: int = 0
    is_open: bool = True
    is_exact: bool = False
    ended_us: int = 0


class Purses(RuleBasedStateMachine):
    def __init__(self, server: RedisServer, runner: asyncio.Runner) -> None:
        super().__init__()
        self.runner = runner
        self.redis = server.client()
        self.calls: dict[str, Audited] = {}
        self.forgotten: list[Audited] = []
        self.lives = 0

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(steps)

    @initialize()
    def start(self) -> None:
        self.run(self.redis.flushall())
        self.holds, self.clock = self.run(stopped_clock(self.redis))
        self.prime()

    @rule(number=st.integers(0, 5), hold=AMOUNTS, names=st.sets(st.sampled_from(NAMES)))
    def admit(self, number: int, hold: int, names: set[str]) -> None:
        rid = f"req_{number}"
        known = self.calls.get(rid)
        shares = tuple(share_of(BUDGETS[name], "", self.clock.now_us) for name in sorted(names))
        opened = opened_call(
            rid, hold_nanousd=hold, budgets=list(shares), admitted_us=self.clock.now_us
        )
        if known:
            shares, opened = known.shares, known.opened
        purses = [purse_of(share, AMOUNT_NANOUSD) for share in shares]
        answer = self.run(self.holds.admit(opened, unlimited(), lease_s=LEASE_S, purses=purses))
        if known:
            assert isinstance(answer, Admitted)
            assert answer.state == ("held" if known.is_open else "settled")
        elif full := self.full(shares, hold):
            assert isinstance(answer, Refused) and answer.dimension is Dimension.BUDGET
            assert answer.scope in [purse_of(share, 0).name for share in full]
        else:
            assert isinstance(answer, Admitted) and answer.state == "new"
            self.calls[rid] = Audited(shares, opened, held=hold)

    @rule(number=st.integers(0, 5), topup=AMOUNTS)
    def renew(self, number: int, topup: int) -> None:
        rid = f"req_{number}"
        answer = self.run(
            self.holds.renew(
                rid, ORG, lease_s=LEASE_S, topup_nanousd=topup, checkpoint=checkpoint()
            )
        )
        call = self.calls.get(rid)
        if call is None or not call.is_open:
            assert answer == Lost(settled=call is not None)
        elif topup and self.full(call.shares, topup):
            assert isinstance(answer, RenewRefused) and answer.held_nanousd == call.held
        else:
            assert answer == Renewed(call.held + topup)
            self.calls[rid] = replace(call, held=call.held + topup)

    @rule(number=st.integers(0, 5), amount=AMOUNTS, is_exact=st.booleans())
    def settle(self, number: int, amount: int, is_exact: bool) -> None:
        rid = f"req_{number}"
        call = self.calls.get(rid)
        if call is None:
            return
        source = UsageSource.EXACT if is_exact else UsageSource.ESTIMATED
        settled = settled_call(
            call.opened,
            amount,
            source=source,
            ended_us=self.clock.now_us,
            budgets=list(call.shares),
        )
        answer = self.run(self.holds.settle(settled))
        if not call.is_open and (call.is_exact or not is_exact):
            assert answer is SettleState.ALREADY
            return
        first_us = self.clock.now_us if call.is_open else call.ended_us
        assert answer is (SettleState.SETTLED if call.is_open else SettleState.CORRECTED)
        self.calls[rid] = replace(
            call, held=0, amount=amount, is_open=False, is_exact=is_exact, ended_us=first_us
        )

    @rule(seconds=st.sampled_from([1, 60, 72, 600, 3_600, 3_672, 20_000, 86_400, 604_800]))
    def wait(self, seconds: int) -> None:
        self.run(self.clock.advance(seconds * 1_000_000))

    @rule(is_wiped=st.booleans())
    def lose_redis(self, is_wiped: bool) -> None:
        """What ended before a wipe is in the ledger, and Redis knows nothing of it any more."""
        if is_wiped:
            self.run(self.redis.flushall())
            self.run(self.clock.advance(0))
            ended = {rid: call for rid, call in self.calls.items() if not call.is_open}
            self.forgotten += ended.values()
            self.calls = {rid: call for rid, call in self.calls.items() if call.is_open}
            for call in self.calls.values():
                self.run(self.announce(call))
        self.prime()

    async def announce(self, call: Audited) -> None:
        assert await self.holds.reannounce(
            call.opened,
            unlimited(),
            held_nanousd=call.held,
            lease_s=LEASE_S,
            checkpoint=None,
            purses=[purse_of(share, AMOUNT_NANOUSD) for share in call.shares],
        )

    def prime(self) -> None:
        self.lives += 1
        epoch = f"{self.run(self.holds.run_id())}:{self.lives}"
        self.run(self.holds.begin_priming(SHARD, epoch))
        last_id = self.run(self.holds.last_stream_id(SHARD))
        assert self.run(self.holds.prime(SHARD, {}, last_id, epoch, self.ledger()))

    def ledger(self) -> list[PurseSpent]:
        """Everything that was settled, by purse and by part of its span."""
        sums: dict[BudgetShare, dict[int, int]] = {}
        for call in self.ended:
            for share in call.shares:
                parts = sums.setdefault(share, {})
                bucket = share.bucket_us(call.ended_us)
                parts[bucket] = parts.get(bucket, 0) + call.amount
        return [
            PurseSpent(purse_of(share, 0), tuple(parts.items())) for share, parts in sums.items()
        ]

    @property
    def ended(self) -> list[Audited]:
        return self.forgotten + [call for call in self.calls.values() if not call.is_open]

    def money(self, share: BudgetShare) -> tuple[int, int]:
        """Held, and spent in the period of a share, or in the span that ends now."""
        held = sum(call.held for call in self.calls.values() if share in call.shares)
        oldest_us = 0
        if share.width_us:
            oldest_us = self.clock.now_us - share.span_us
            oldest_us -= oldest_us % share.width_us
        counts = [call for call in self.ended if share in call.shares]
        return held, sum(
            call.amount for call in counts if share.bucket_us(call.ended_us) >= oldest_us
        ) if share.width_us else sum(call.amount for call in counts)

    def full(self, shares: Sequence[BudgetShare], more: int) -> list[BudgetShare]:
        return [share for share in shares if sum(self.money(share)) + more > AMOUNT_NANOUSD]

    @invariant()
    def every_purse_is_what_the_auditor_says(self) -> None:
        if not hasattr(self, "holds"):
            return
        now_us = self.clock.now_us
        shares = {share_of(each, "", now_us) for each in BUDGETS.values()}
        shares |= {share for call in self.calls.values() for share in call.shares}
        asked = sorted(shares, key=lambda share: purse_of(share, 0).name)
        purses = [purse_of(share, AMOUNT_NANOUSD) for share in asked]
        found = self.run(self.holds.purses(ORG, purses, now_us=now_us))
        assert found == [self.money(share) for share in asked]

    def teardown(self) -> None:
        self.run(self.redis.aclose())


def test_g23_a_purse_is_what_its_calls_hold_and_the_ledger_counts(
    law_server: RedisServer, runner: asyncio.Runner
) -> None:
    run_state_machine_as_test(
        lambda: Purses(law_server, runner),
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
        ),
    )
