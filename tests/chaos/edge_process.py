"""A gateway's part in the money of calls, as a process to be killed.

Holds, leases, accounts, spool, outage and recovery are the gateway's own; HTTP and workers are
not there. Each call is what `plan` says of its id. What a client would be told is a line on stdout,
written by write(2), so that it is told even if this process dies at once afterwards. `die` is a
step to die at.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from redis.asyncio import Redis

from billing.db.engine import open_store
from billing.limits.breaker import Breaker, BreakerSettings
from billing.limits.holds import Holds
from billing.limits.types import ScopeLimits
from billing.prices.book import Component, PriceBook, PriceRate, PriceVersion, make_book
from billing.spool.spool import Spool
from billing.tasks import end
from billing.types import Attempt, Usage
from gateway.call.admission import Accounts
from gateway.call.frame import Choice, Frame
from gateway.call.leases import Leases, LeaseSettings
from gateway.call.meter import Meter
from gateway.call.open_call import OpenCall, Quote
from gateway.call.outage import Outage, OutageSettings
from gateway.call.recovery import Recovery
from gateway.errors import ApiError, overloaded, upstream_lost
from gateway.limits.credits import CreditLines
from gateway.limits.pressure import Pressure
from gateway.tenants.auth import OutageMode, OutageRule, Principal
from routing.policy.action import Action, Matched
from routing.types import Call, Candidate, CapacityClass, Decision, Tier
from tests.chaos import plan
from tests.chaos.deadly import Deadly, Death
from tests.chaos.halves import HalfMeter
from tests.chaos.knobs import Knobs
from tests.chaos.plan import Ending, PlannedCall, planned

SEGMENT_BYTES = 32 * 1024
OUTPUT_ROOM = 10
LEASES = LeaseSettings(
    slice_tokens=64,
    slice_margin_tokens=16,
    lease_s=1.5,
    renew_every_s=0.2,
    retry_every_s=0.05,
    outage_wait_s=2.0,
)
LEAVES_WITHIN_S = 0.02
BEGINS_US = 1


@dataclass(frozen=True)
class Asked:
    """What the process is told."""

    name: str
    life: int
    seed: int
    callers: int
    pause_s: float
    spool: str
    redis: str
    sql: str
    knobs: str
    die: str = ""
    bills_half: bool = False
    """As a product would that is wrong: for the auditor to find."""


@dataclass
class Catalog:
    """As much of the gateway's catalog as recovery looks at."""

    prices: PriceBook


def tell(*words: Any) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


class Edge:
    def __init__(self, asked: Asked, redis: Redis, spool: Spool) -> None:
        self.asked = asked
        self.clock = Knobs(Path(asked.knobs)).now
        breaker = Breaker(BreakerSettings(failures_max=5, open_s=0.2), self.clock)
        death = Death(asked.die)
        holds: Any = Deadly(Holds(redis, timeout_s=0.3, breaker=breaker), "holds", death)
        deadly_spool: Any = Deadly(spool, "spool", death)
        outage = Outage(OutageSettings(spend_cap_nanousd=10**12), self.clock, lambda: 0.1)
        self.leases = Leases(
            holds=holds, spool=deadly_spool, outage=outage, settings=LEASES, clock=self.clock
        )
        self.accounts = Accounts(
            holds=holds,
            spool=deadly_spool,
            leases=self.leases,
            outage=outage,
            credits=CreditLines(redis, 0.05),
            pressure=Pressure(redis, 0.05),
            gateway_id=asked.name,
            calls_max=500,
            clock=self.clock,
        )
        self.store = open_store(asked.sql)
        self.recovery = Recovery(
            redis=redis,
            holds=Holds(redis, timeout_s=1.0),
            announce_runs=self._announce_nothing,
            accounts=self.accounts,
            outage=outage,
            catalog=Catalog(_book()),
            ledger=self.store,
            spool_root=Path(asked.spool),
            gateway_id=asked.name,
            clock=self.clock,
        )
        self.rng = Random(f"{asked.seed} {asked.name} {asked.life}")
        self.stopping = asyncio.Event()

    async def _announce_nothing(self) -> None:
        """No call runs under an idempotency key here."""

    async def run(self) -> None:
        """Until SIGTERM, and then until nothing is owed any more."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stopping.set)
        beside = [
            asyncio.create_task(self.recovery.run()),
            asyncio.create_task(self.accounts.run()),
            asyncio.create_task(self.accounts.credits.run()),
        ]
        while not self.accounts.is_ready and not self.stopping.is_set():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        tell("ready", self.asked.life)
        async with asyncio.TaskGroup() as callers:
            for number in range(self.asked.callers):
                callers.create_task(self.calls(number))
            await self.stopping.wait()
        while self.accounts.unsettled_count or self.accounts.left_to_spool:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        await end(*beside)
        self.store.close()
        tell("idle", self.asked.life)

    async def calls(self, caller: int) -> None:
        number = 0
        while not self.stopping.is_set():
            rid = f"{self.asked.name}-{self.asked.life}-{caller}-{number}"
            await self.one(planned(self.asked.seed, rid, pause_s=self.asked.pause_s))
            number += 1
            await asyncio.sleep(self.rng.uniform(0, self.asked.pause_s))

    async def one(self, wanted: PlannedCall) -> None:
        tell("asked", wanted.rid)
        journey = asyncio.create_task(self.journey(wanted))
        if wanted.ending is Ending.LEFT and not wanted.leaves_after:
            asyncio.get_running_loop().call_later(
                self.rng.uniform(0, LEAVES_WITHIN_S), journey.cancel
            )
        try:
            await asyncio.shield(journey)
        except asyncio.CancelledError:
            tell("left", wanted.rid)
        except ApiError as no:
            tell("failed", wanted.rid, no.status, no.code, no.charged_nanousd)

    async def journey(self, wanted: PlannedCall) -> None:
        """Steps 5 to 8 of `gateway/pipeline.py`, with a worker that is a loop."""
        principal = _principal(wanted.org)
        prices = _book().of_version(plan.PRICE_VERSION, wanted.model, wanted.tier, False)
        quote = Quote(plan.PRICE_VERSION, {wanted.model: prices})
        chosen = _candidate(wanted)
        decision = Decision(Matched("chaos", 1, Action()), 0, (chosen,))
        call = self._call(wanted)
        async with self.accounts.admit(
            principal, call, quote, decision, principal.scopes
        ) as open_call:
            tell("admitted", wanted.rid)
            try:
                pieces = await self.answer(open_call, wanted, chosen)
            except ApiError:
                if not (wanted.stream and open_call.has_spoken):
                    open_call.forgive()
                raise
            self.accounts.close(open_call)
            tell("whole", wanted.rid, pieces, open_call.charge.amount_nanousd)

    async def answer(self, open_call: OpenCall, wanted: PlannedCall, chosen: Candidate) -> int:
        """How many of the planned pieces the client gets: what it is charged for is not asked of
        the product."""
        if wanted.ending is Ending.UNREACHABLE:
            raise overloaded("Nobody takes it.", 1.0)
        since_us = round(self.clock() * 1e6)
        for number, wasted in enumerate(wanted.wasted):
            open_call.attempts.append(_attempt(f"r{number}", since_us, "cut", wasted))
            await asyncio.sleep(wanted.pause_s)
        meter = (HalfMeter if self.asked.bills_half else Meter)(wanted.prompt)
        open_call.serve_from(chosen, meter, since_us)
        open_call.attempts.append(_attempt("r9", since_us, "done", wanted.output))
        for place in range(1, len(wanted.frames) + 1):
            await asyncio.sleep(wanted.pause_s)
            frame = _frame(wanted, place)
            output = wanted.output_after(place)
            has_plenty = self.leases.has_plenty(open_call, output)
            if not has_plenty and not await self.leases.covers(open_call, output):
                open_call.finish_reason = "length"
                return place - 1
            meter.observe(frame, self.clock())
            if place % plan.CHECKPOINT_EVERY == 0:
                await self.leases.renew(open_call)
            if wanted.stream:
                tell("frame", wanted.rid, place)
            if place == wanted.leaves_after and wanted.ending is Ending.LEFT:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(60)
            if place == wanted.leaves_after and wanted.ending is Ending.FAILED:
                raise upstream_lost("The worker was lost.")
        return len(wanted.frames)

    def _call(self, wanted: PlannedCall) -> Call:
        now_s = self.clock()
        return Call(
            request_id=wanted.rid,
            organization=wanted.org,
            project=f"proj_{wanted.org}",
            key=f"key_{wanted.org}",
            model_requested=wanted.model,
            models=(wanted.model,),
            tier=Tier(wanted.tier),
            stream=wanted.stream,
            prompt_tokens={wanted.model: wanted.prompt},
            output_tokens_max=wanted.output + OUTPUT_ROOM,
            arrived_s=now_s,
            deadline_s=now_s + 60,
        )


def _frame(wanted: PlannedCall, place: int) -> Frame:
    last = place == len(wanted.frames)
    usage = Usage(
        input=wanted.prompt - wanted.cached,
        cached_input=wanted.cached,
        output=wanted.output_after(place),
    )
    finish = "stop" if last else None
    return Frame((Choice(0, {"content": "word "}, finish_reason=finish),), usage)


def _attempt(replica: str, at_us: int, outcome: str, output: int) -> Attempt:
    return Attempt(
        pool="pool",
        replica=replica,
        started_us=at_us,
        ended_us=at_us,
        outcome=outcome,
        output=output,
    )


def _candidate(wanted: PlannedCall) -> Candidate:
    return Candidate(
        pool="pool",
        model=wanted.model,
        variant="fp16",
        capacity_class=CapacityClass.RESERVED,
        tier=Tier(wanted.tier),
        eligible=True,
        score_nanousd=1,
        cost_nanousd=1,
        wait_s=0.0,
        reason="the only one",
    )


def _principal(org: str) -> Principal:
    budget = plan.POOR_BUDGET_NANOUSD if org == plan.POOR else None
    scopes = (
        ScopeLimits(scope=f"key:key_{org}", budget_nanousd=budget),
        ScopeLimits(scope=f"project:proj_{org}"),
        ScopeLimits(scope=f"org:{org}"),
    )
    mode = OutageMode.DENY if org in (plan.POOR, plan.PREPAID) else OutageMode.LOCAL
    return Principal(
        organization=org,
        project=f"proj_{org}",
        key=f"key_{org}",
        scopes=scopes,
        outage=OutageRule(mode),
        may_owe_nanousd=0 if org == plan.PREPAID else None,
    )


_BOOKS: list[PriceBook] = []


def rates() -> list[PriceRate]:
    """The plan's prices as the product is told of them."""
    return [
        PriceRate(model=model, tier=tier, component=Component(component), nanousd_per_mtok=price)
        for (model, component), price in plan.PRICES.items()
        for tier in plan.TIERS
    ]


def _book() -> PriceBook:
    if not _BOOKS:
        version = PriceVersion(plan.PRICE_VERSION, BEGINS_US, None, tuple(rates()))
        _BOOKS.append(make_book([version]))
    return _BOOKS[0]


async def main(asked: Asked) -> None:
    knobs = Knobs(Path(asked.knobs))

    redis = Redis.from_url(asked.redis)
    spool = Spool(
        Path(asked.spool),
        asked.name,
        segment_bytes=SEGMENT_BYTES,
        disk_free_min_bytes=0,
        write=knobs.write,
    )
    async with spool:
        await Edge(asked, redis, spool).run()
    with suppress(Exception):
        await redis.aclose()


def run(asked: Asked) -> None:
    asyncio.run(main(asked))
