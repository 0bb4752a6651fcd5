"""Laws of permits and money: whatever is admitted, renewed, settled, repeated, lost or primed in
whatever order, held is the sum of the open holds, spent the sum of what was settled, and nothing
is left when everything has ended. A call that goes on to another model has its limits until then,
once. An auditor model predicts every answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, TypeVar

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from billing.limits import keys
from billing.limits.gcra import Bucket, Wait, cost_us, take
from billing.limits.holds import Holds
from billing.limits.state import BUCKET
from billing.limits.types import (
    Admitted,
    Dimension,
    HoldState,
    Lost,
    Money,
    Refused,
    Renewed,
    RenewRefused,
    ScopeLimits,
    SettleState,
    Spent,
)
from billing.types import OpenedCall, UsageSource, decode_settled
from tests.billing.calls import checkpoint, opened_call, settled_call
from tests.billing.limits.harness import (
    MONTH,
    ORG,
    SCOPES,
    SHARD,
    digest,
    open_shard,
    scope_state,
    stopped_clock,
)
from tests.redis_server import RedisServer

T = TypeVar("T")
BUCKET_STATE = Struct(BUCKET)
LEASE_MS = 10_000
BUDGET_NANOUSD = 5_000
CONCURRENCY = 3
LIMITS = [
    ScopeLimits(scope=SCOPES[0], concurrency=CONCURRENCY),
    ScopeLimits(scope=SCOPES[1], budget_nanousd=BUDGET_NANOUSD, budget_window="month"),
    ScopeLimits(scope=SCOPES[2], budget_nanousd=BUDGET_NANOUSD),
]
SLOTS, PER_MINUTE = 2, 3
OF_MODELS = {
    "tale": ScopeLimits(scope=f"{SCOPES[0]}/model:tale", is_narrow=True, concurrency=SLOTS),
    "free": ScopeLimits(
        scope=f"{SCOPES[0]}/model:free", is_narrow=True, requests_per_minute=PER_MINUTE
    ),
}
MODELS = st.sampled_from(sorted(OF_MODELS))
RIDS = st.integers(0, 5).map(lambda number: f"req_{number}")
AMOUNTS = st.integers(0, 3_000)


@dataclass(frozen=True)
class Audited:
    """What the auditor knows about one request id."""

    state: HoldState
    held: int = 0
    amount: int = 0
    due_ms: int = 0
    models: frozenset[str] = frozenset()
    """Whose own limits it has."""


class MoneyOfCalls(RuleBasedStateMachine):
    def __init__(self, server: RedisServer, runner: asyncio.Runner) -> None:
        super().__init__()
        self.runner = runner
        self.redis = server.client()
        self.calls: dict[str, Audited] = {}
        self.settled_records = 0
        self.open = False
        self.requests_of_free = Bucket()
        self.epochs = 0
        self.refilled_by_ledger = True

    def run(self, steps: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(steps)

    @initialize()
    def start(self) -> None:
        self.run(self.redis.flushall())
        self.holds, self.clock = self.run(stopped_clock(self.redis))
        self.prime()

    @rule(rid=RIDS, hold=AMOUNTS)
    def admit(self, rid: str, hold: int) -> None:
        before = self.run(digest(self.redis))
        call = opened_call(rid, hold_nanousd=hold)
        answer = self.run(self.holds.admit(call, LIMITS, lease_s=LEASE_MS / 1000))
        expected = self.expected_admission(rid, hold)
        if isinstance(answer, Refused):
            assert answer.dimension is expected
        else:
            assert answer.state == expected
        if expected == "new":
            due_ms = self.clock.now_ms + LEASE_MS
            self.calls[rid] = Audited(HoldState.HELD, held=hold, due_ms=due_ms)
        else:
            assert self.run(digest(self.redis)) == before

    def expected_admission(self, rid: str, hold: int) -> Dimension | str:
        if not self.open:
            return Dimension.UNPRIMED
        if rid in self.calls:
            return "held" if self.calls[rid].state is HoldState.HELD else "settled"
        if self.spent + self.held + hold > BUDGET_NANOUSD:
            return Dimension.BUDGET
        leases = [call for call in self.held_calls.values() if call.due_ms >= self.clock.now_ms]
        return Dimension.CONCURRENCY if len(leases) >= CONCURRENCY else "new"

    @rule(rid=RIDS, model=MODELS, unasked=st.booleans())
    def extend(self, rid: str, model: str, unasked: bool) -> None:
        before = self.run(digest(self.redis))
        scopes = [OF_MODELS[model]]
        answer = self.run(self.holds.extend(opened_call(rid), scopes, unasked=unasked))
        expected = self.expected_extension(rid, model, unasked)
        if isinstance(expected, Dimension):
            assert isinstance(answer, Refused) and answer.dimension is expected
            assert answer.scope == OF_MODELS[model].scope
        else:
            assert answer == expected
        if expected != Admitted("new"):
            assert self.run(digest(self.redis)) == before
            return
        call = self.calls[rid]
        self.calls[rid] = replace(call, models=call.models | {model})
        if model == "free":
            now_us, tat_us = self.clock.now_us, self.requests_of_free.tat_us
            self.requests_of_free = Bucket(max(tat_us, now_us) + cost_us(1, PER_MINUTE))

    def expected_extension(
        self, rid: str, model: str, unasked: bool
    ) -> Admitted | Lost | Dimension:
        call = self.calls.get(rid)
        if call is None or call.state is not HoldState.HELD:
            return Lost(settled=call is not None)
        if model in call.models:
            return Admitted("held")
        if model == "tale" and not unasked and len(self.slots_of_tale) >= SLOTS:
            return Dimension.CONCURRENCY
        if model == "free" and not unasked:
            cost, most = cost_us(1, PER_MINUTE), cost_us(PER_MINUTE, PER_MINUTE)
            bucket, now_us = self.requests_of_free, self.clock.now_us
            taken = take(bucket, now_us=now_us, cost_us=cost, tolerance_us=most)
            if isinstance(taken, Wait):
                return Dimension.REQUESTS
        return Admitted("new")

    @property
    def slots_of_tale(self) -> dict[str, int]:
        """When the leases end of the calls that have one."""
        return {
            rid: call.due_ms
            for rid, call in self.held_calls.items()
            if "tale" in call.models and call.due_ms >= self.clock.now_ms
        }

    @rule(rid=RIDS, topup=AMOUNTS)
    def renew(self, rid: str, topup: int) -> None:
        answer = self.run(
            self.holds.renew(
                rid,
                ORG,
                lease_s=LEASE_MS / 1000,
                topup_nanousd=topup,
                checkpoint=checkpoint(len(self.calls)),
            )
        )
        call = self.calls.get(rid)
        if call is None or call.state is not HoldState.HELD:
            assert answer == Lost(settled=call is not None)
            return
        renewed = replace(call, due_ms=self.clock.now_ms + LEASE_MS)
        if topup and not self.open:
            assert answer == RenewRefused("", Dimension.UNPRIMED, call.held)
        elif topup and self.spent + self.held + topup > BUDGET_NANOUSD:
            assert answer == RenewRefused(SCOPES[1], Dimension.BUDGET, call.held)
        else:
            renewed = replace(renewed, held=call.held + topup)
            assert answer == Renewed(renewed.held)
        self.calls[rid] = renewed

    @rule(rid=RIDS, amount=AMOUNTS, exact=st.booleans(), only_if_due=st.booleans())
    def settle(self, rid: str, amount: int, exact: bool, only_if_due: bool) -> None:
        before = self.run(digest(self.redis))
        source = UsageSource.EXACT if exact else UsageSource.ESTIMATED
        call = settled_call(opened_call(rid), amount, source=source)
        answer = self.run(self.holds.settle(call, only_if_due=only_if_due))
        assert answer is self.expected_settlement(rid, exact, only_if_due)
        if answer in (SettleState.ALREADY, SettleState.LIVE):
            assert self.run(digest(self.redis)) == before
            return
        state = HoldState.SETTLED if exact else HoldState.ESTIMATED
        self.calls[rid] = Audited(state, amount=amount)
        self.settled_records += 1

    def expected_settlement(self, rid: str, exact: bool, only_if_due: bool) -> SettleState:
        call = self.calls.get(rid)
        if call is None:
            return SettleState.LOST
        if call.state is HoldState.HELD:
            live = only_if_due and call.due_ms > self.clock.now_ms
            return SettleState.LIVE if live else SettleState.SETTLED
        corrects = exact and call.state is HoldState.ESTIMATED
        return SettleState.CORRECTED if corrects else SettleState.ALREADY

    @rule(ms=st.sampled_from([1, 3_000, LEASE_MS, LEASE_MS + 1]))
    def pass_time(self, ms: int) -> None:
        self.run(self.clock.advance(ms * 1000))

    @rule()
    def reap(self) -> None:
        due = self.run(self.holds.due(SHARD, limit=99, now_ms=self.clock.now_ms))
        overdue = {rid for rid, call in self.held_calls.items() if call.due_ms <= self.clock.now_ms}
        assert {hold.rid for hold in due} == overdue
        for rid in sorted(overdue):
            self.settle(rid, 100, exact=False, only_if_due=True)

    @rule()
    def begin_priming(self) -> None:
        self.open = False
        self.epochs += 1
        run_id = self.run(self.holds.run_id())
        self.run(self.holds.begin_priming(SHARD, f"{run_id}:{self.epochs}"))

    @precondition(lambda self: not self.open)
    @rule()
    def prime(self) -> None:
        spent = Spent(self.spent, {MONTH: self.spent})
        self.run(open_shard(self.holds, {scope: spent for scope in SCOPES}))
        self.open = True

    @rule(rid=RIDS, models=st.frozensets(MODELS))
    def reannounce(self, rid: str, models: frozenset[str]) -> None:
        scopes = [*LIMITS, *(OF_MODELS[model] for model in sorted(models))]
        created = self.run(
            self.holds.reannounce(
                opened_call(rid), scopes, held_nanousd=7, lease_s=LEASE_MS / 1000, checkpoint=None
            )
        )
        assert created is (rid not in self.calls)
        if created:
            due_ms = self.clock.now_ms + LEASE_MS
            self.calls[rid] = Audited(HoldState.HELD, held=7, due_ms=due_ms, models=models)

    @invariant()
    def money_is_that_of_the_calls(self) -> None:
        if self.open:
            for scope in SCOPES:
                money = self.run(self.holds.money(ORG, scope))
                assert (money.held_nanousd, money.spent.total_nanousd) == (self.held, self.spent)
                assert money.spent.months.get(MONTH, 0) == self.spent

    @invariant()
    def leases_and_due_times_are_those_of_the_open_holds(self) -> None:
        expected = {rid.encode(): float(call.due_ms) for rid, call in self.held_calls.items()}
        due = self.run(self.redis.zrange(keys.due_key(SHARD), 0, -1, withscores=True))
        assert dict(due) == expected
        for scope in SCOPES if self.open else ():
            assert self.run(scope_state(self.redis, scope)).running == len(expected)

    @invariant()
    def slots_of_a_model_are_those_of_the_calls_that_went_there(self) -> None:
        slots = self.run(self.redis.zrange(self.key_of("tale#concurrency"), 0, -1, withscores=True))
        live = {rid.decode(): due for rid, due in slots if due >= self.clock.now_ms}
        assert live == self.slots_of_tale
        assert {rid.decode() for rid, _ in slots} <= self.held_calls.keys()

    @invariant()
    def requests_of_a_model_are_those_of_the_calls_that_went_there(self) -> None:
        state = self.run(self.redis.get(self.key_of("free#requests")))
        tat_us = BUCKET_STATE.unpack(state)[0] if state else 0
        now_us = self.clock.now_us
        assert max(tat_us, now_us) == max(self.requests_of_free.tat_us, now_us)

    def key_of(self, meter: str) -> str:
        return keys.meter_key(SHARD, f"{SCOPES[0]}/model:{meter}")

    @invariant()
    def the_note_of_lapsed_leases_is_true(self) -> None:
        note = self.run(self.redis.get(keys.lapsed_key(SHARD)))
        if note is not None:
            to_ms, *words = note.decode().split()
            lapsed = sum(call.due_ms < int(to_ms) for call in self.held_calls.values())
            assert words == [word for scope in sorted(SCOPES) for word in (scope, str(lapsed))]

    @rule()
    def lose_the_note_of_lapsed_leases(self) -> None:
        self.run(self.redis.delete(keys.lapsed_key(SHARD)))

    def teardown(self) -> None:
        if hasattr(self, "holds"):
            self.everything_ends()
        self.run(self.redis.aclose())

    def everything_ends(self) -> None:
        if not self.open:
            self.prime()
        for rid in self.held_calls:
            self.settle(rid, 100, exact=True, only_if_due=False)
        for scope in SCOPES:
            money = self.run(self.holds.money(ORG, scope))
            assert (money.held_nanousd, money.spent.total_nanousd) == (0, self.spent)
            assert self.run(scope_state(self.redis, scope)).running == 0
        assert not self.run(self.redis.exists(keys.lapsed_key(SHARD)))
        assert not self.run(self.redis.exists(self.key_of("tale#concurrency")))
        stream = self.run(self.redis.xrange(keys.usage_key(SHARD)))
        records = [
            decode_settled(fields[b"p"]) for _, fields in stream if fields[b"k"] == b"settled"
        ]
        assert len(records) == self.settled_records
        assert {call.rid: call.amount_nanousd for call in records} == {
            rid: call.amount for rid, call in self.calls.items()
        }

    @property
    def held_calls(self) -> dict[str, Audited]:
        return {rid: call for rid, call in self.calls.items() if call.state is HoldState.HELD}

    @property
    def held(self) -> int:
        return sum(call.held for call in self.calls.values())

    @property
    def spent(self) -> int:
        return sum(call.amount for call in self.calls.values())


def test_held_and_spent_are_those_of_the_calls_in_any_order(
    law_server: RedisServer, runner: asyncio.Runner
) -> None:
    run_state_machine_as_test(
        lambda: MoneyOfCalls(law_server, runner),
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
        ),
    )


@settings(max_examples=15, deadline=None)
@given(
    most=st.integers(1_000, 20_000),
    is_credit=st.booleans(),
    calls=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=20, max_size=60),
)
def test_no_budget_is_overspent_by_any_number_of_gateways(
    law_server: RedisServer,
    runner: asyncio.Runner,
    most: int,
    is_credit: bool,
    calls: list[tuple[int, int, int]],
) -> None:
    bound = {"ceiling_nanousd" if is_credit else "budget_nanousd": most}
    limits = ScopeLimits(scope=SCOPES[2], **bound)  # type: ignore[arg-type]
    assert runner.run(many_gateways(law_server, limits, calls)) <= most


async def many_gateways(
    server: RedisServer, bound: ScopeLimits, calls: list[tuple[int, int, int]]
) -> int:
    """What all of them have spent within the one scope that is bound."""
    clients = [server.client() for _ in range(4)]
    await clients[0].flushall()
    gateways = [Holds(client, timeout_s=10) for client in clients]
    await open_shard(gateways[0])
    scopes = [ScopeLimits(scope=SCOPES[0]), ScopeLimits(scope=SCOPES[1]), bound]

    async def one_call(number: int, hold: int, topup: int, used: int) -> int:
        """Spends at most what it was granted, as a gateway does."""
        holds = gateways[number % len(gateways)]
        call: OpenedCall = opened_call(f"req_{number}", hold_nanousd=hold)
        if not isinstance(await holds.admit(call, scopes, lease_s=60), Admitted):
            return 0
        renewed = await holds.renew(
            call.rid, ORG, lease_s=60, topup_nanousd=topup, checkpoint=checkpoint()
        )
        assert isinstance(renewed, Renewed | RenewRefused)
        amount = min(used, renewed.held_nanousd)
        assert await holds.settle(settled_call(call, amount)) is SettleState.SETTLED
        return amount

    spent = sum(await asyncio.gather(*(one_call(n, *call) for n, call in enumerate(calls))))
    month = {MONTH: spent} if spent else {}
    assert await gateways[0].money(ORG, SCOPES[2]) == Money(0, Spent(spent, month))
    for client in clients:
        await client.aclose()
    return spent


@pytest.mark.parametrize("bound", ["budget_nanousd", "ceiling_nanousd"])
def test_g21_a_hundred_callers_at_the_last_dollar_hold_no_more_than_a_dollar(
    law_server: RedisServer, runner: asyncio.Runner, bound: str
) -> None:
    runner.run(last_dollar(law_server, bound))


async def last_dollar(server: RedisServer, bound: str) -> None:
    clients = [server.client() for _ in range(4)]
    await clients[0].flushall()
    gateways = [Holds(client, timeout_s=10) for client in clients]
    await open_shard(gateways[0])
    dollar = 10**9
    scopes = [ScopeLimits(scope=scope, **{bound: dollar}) for scope in SCOPES]  # type: ignore[arg-type]
    answers = await asyncio.gather(
        *(
            gateways[number % 4].admit(
                opened_call(f"req_{number}", hold_nanousd=dollar // 7), scopes, lease_s=60
            )
            for number in range(100)
        )
    )
    assert sum(isinstance(answer, Admitted) for answer in answers) == 7
    for client in clients:
        await client.aclose()
