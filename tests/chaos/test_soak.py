"""An hour of it: every kind of fault one upon another, on two whole gateways with eleven tenants of
every kind, over either database, and an auditor who knows the plan and what clients heard.

The short one takes a minute and every kind of fault. Of both the seed is printed, and
`SOAK_SECONDS`, `SOAK_SEED` and `SOAK_RECORD` (a file that the result is added to) change them:
    SOAK_SEED=7 python -m pytest tests/chaos/test_soak.py -k 'short and sqlite' -n 0 -s
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from billing.tasks import end
from tests.chaos import faults
from tests.chaos.databases import Database
from tests.chaos.soak_auditor import Harm, SoakAuditor
from tests.chaos.soak_parts import Heard
from tests.chaos.soak_plan import (
    PARTS,
    Ending,
    Phase,
    Tenant,
    Try,
    named_call,
    rounds,
    slots,
    tenants,
)
from tests.chaos.soak_world import GatewayWorld, called, whole_gateways
from tests.chaos.world import EDGES, World
from tests.redis_server import RedisServer

SHORT_S = 60.0
LONG_S = 3600.0
SEED = int(os.environ.get("SOAK_SEED", "20261123"))
FREEZES_EVERY_S = 20.0
REFUSED_BY_THEMSELVES = ("402", "403", "429")
"""By a limit, a budget, credit or a freeze of the tenant's own."""
TRIED_AGAIN_S = 0.2
ANSWERS = 20
"""That come before the first fault and after the last."""
AUDITED_WITHIN_S = 600.0


# --- harm that only whole gateways know -----------------------------------------------------------


async def cut_upstream(world: World, rng: Random) -> None:
    """Every answer of the server outside that is under way breaks off."""
    assert isinstance(world, GatewayWorld)
    world.outside.server.hang_up()


async def harm_upstream(world: World, rng: Random) -> None:
    """The server outside refuses, breaks, resets, hangs or talks nonsense to all for a while."""
    assert isinstance(world, GatewayWorld)
    world.outside.harm = rng.choice(list(Try))
    await asyncio.sleep(rng.uniform(0.3, 1.5))
    world.outside.harm = None


OURS = {"cut_upstream": cut_upstream, "harm_upstream": harm_upstream}


def fault_named(name: str) -> faults.Fault:
    found: faults.Fault = OURS.get(name) or getattr(faults, name)
    return found


# --- one soak -------------------------------------------------------------------------------------


@dataclass
class Soak:
    world: GatewayWorld
    seconds: float
    tenants: Sequence[Tenant]
    rng: Random
    phase: Phase = Phase.QUIET
    phases: list[tuple[float, Phase]] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)

    @property
    def auditor(self) -> SoakAuditor:
        assert isinstance(self.world.auditor, SoakAuditor)
        return self.world.auditor

    async def run(self) -> None:
        async with called(self.world, self.tenants):
            freezing = asyncio.create_task(self._freeze())
            try:
                await self.world.heard(ANSWERS)
                await self._harm()
                self._begin(Phase.QUIET)
                await self.world.heard(ANSWERS)
            finally:
                await end(freezing)

    async def _harm(self) -> None:
        ends_s = time.monotonic() + self.seconds
        for slot in slots(self.world.seed):
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                return
            self._begin(slot.phase)
            began_s = time.monotonic()
            await self.world.supervise()
            await asyncio.gather(*(self._one(name) for name in slot.faults))
            spent_s = 0.0 if slot.phase is Phase.STORM else time.monotonic() - began_s
            await asyncio.sleep(min(left_s, max(0.0, slot.pause_s - spent_s)))

    async def _one(self, name: str) -> None:
        began_s = time.time()
        print(f"{began_s:.2f} {name}", flush=True)
        try:
            await fault_named(name)(self.world, self.rng)
        finally:
            self.auditor.harms.append(Harm(name, began_s, time.time()))
            self.done[name] += 1

    def _begin(self, phase: Phase) -> None:
        if phase is not self.phase:
            self.phase = phase
            self.phases.append((time.time(), phase))

    async def _freeze(self) -> None:
        """Frozen and thawed in turns; an administrator tries again until it is done."""
        (name,) = (tenant.name for tenant in self.tenants if tenant.freezes)
        while True:
            await asyncio.sleep(FREEZES_EVERY_S)
            await self._set(name, "frozen")
            from_s = time.time()
            await asyncio.sleep(FREEZES_EVERY_S)
            self.auditor.frozen.append((from_s, time.time()))
            await self._set(name, "active")

    async def _set(self, name: str, status: str) -> None:
        path = f"/organizations/{self.world.organizations[name]}"
        for number in range(10**6):
            try:
                await self.world.admin("PATCH", path, {"status": status}, number % len(EDGES))
                return
            except Exception:
                await asyncio.sleep(TRIED_AGAIN_S)

    # --- what came of it --------------------------------------------------------------------------

    def asked(self) -> list[tuple[str, Heard]]:
        heard = self.world.callers_at_work.heard
        return [(name, each) for name, tries in heard.items() for each in tries[:1]]

    def outcomes(self) -> Counter[str]:
        return Counter(each.outcome for _, each in self.asked())

    def availability(self, phase: Phase | None = None) -> dict[str, Any]:
        """Of calls that nothing of their own, and no plan, kept from being answered: how many were
        answered at the first try."""
        counted: Counter[str] = Counter()
        for name, each in self.asked():
            is_planned = named_call(self.world.seed, name).ending in (Ending.CUT, Ending.LEFT)
            is_own = each.outcome.startswith(REFUSED_BY_THEMSELVES)
            if not (is_planned or is_own) and phase in (None, self._phase_at(each.sent_s)):
                counted[each.outcome] += 1
        asked = counted.total()
        share = counted["answered"] / asked if asked else None
        return {"answered": counted["answered"], "asked": asked, "share": share} | {
            "not_answered": {why: n for why, n in counted.most_common() if why != "answered"}
        }

    def _phase_at(self, at_s: float) -> Phase:
        found = Phase.QUIET
        for began_s, phase in self.phases:
            if began_s <= at_s:
                found = phase
        return found

    def again(self) -> dict[str, int]:
        """Of calls with a key that were not answered at first: how many were in the end."""
        later = [tries for tries in self.world.callers_at_work.heard.values() if len(tries) > 1]
        return {"asked": len(later), "answered": sum(tries[-1].is_whole for tries in later)}

    def unanswered_by_fault(self) -> dict[str, int]:
        """Under or within seconds after which fault calls were not answered."""
        found: Counter[str] = Counter()
        harms = self.auditor.harms
        for name, each in self.asked():
            is_planned = named_call(self.world.seed, name).ending in (Ending.CUT, Ending.LEFT)
            if each.is_whole or is_planned or each.outcome.startswith(REFUSED_BY_THEMSELVES):
                continue
            before = [harm for harm in harms if harm.began_s <= each.ended_s]
            latest = max(before, key=lambda harm: harm.began_s).name if before else "none"
            found[latest] += 1
        return dict(found.most_common())


async def soak(
    database: Database, server: RedisServer, folder: Path, seconds: float, name: str
) -> None:
    world = GatewayWorld(folder, server, database, SEED, quiet_within_s=AUDITED_WITHIN_S)
    kinds = tenants(seconds)
    async with whole_gateways(world):
        world.auditor = SoakAuditor(world, kinds)
        one = Soak(world, seconds, kinds, Random(f"harm {SEED}"))
        began_s = time.time()
        await one.run()
        took_s = time.time() - began_s
        books = await world.finish(one.rng)
    auditor = one.auditor
    result = {
        "database": name,
        "seed": SEED,
        "seconds": round(took_s),
        "faults": one.done.total(),
        "kinds_of_faults": len(one.done),
        "calls": len(world.callers_at_work.heard),
        "charged": sum(bool(int(row["amount_nanousd"])) for row in books.events.values()),
        "charged_nanousd": sum(auditor.spent(books)[world.scopes[t.name]["org"]] for t in kinds),
        "availability": one.availability(),
        "by_phase": {phase.value: one.availability(phase) for phase in Phase},
        "asked_again_under_a_key": one.again(),
        "unanswered_by_fault": one.unanswered_by_fault(),
        "outcomes": dict(one.outcomes().most_common()),
        "guarded": dict(auditor.guarded),
    }
    print(json.dumps(result, indent=1))
    if record := os.environ.get("SOAK_RECORD"):
        with open(record, "a") as file:  # noqa: ASYNC230
            file.write(json.dumps(result) + "\n")
    assert set(one.done) == set(PARTS) or seconds < SHORT_S, "every kind of fault was done"
    for law in GUARDED if seconds < LONG_S else (*GUARDED, *GUARDED_FOR_LONG):
        assert auditor.guarded[law], f"nothing was judged by: {law}"


GUARDED = (
    "answers told whole",
    "answers reported too high",
    "failures told",
)
GUARDED_FOR_LONG = (
    *("clients that left", "rolling spans", "spans of requests", "spans of tokens"),
    *("slots taken", "calls of the frozen", "charges whose client heard no id"),
)
"""What judges where nothing is done to anybody, of which a minute has little."""


def database_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.id)


@pytest.mark.timeout(900)
async def test_short_soak_charges_every_call_once(
    database: Database, server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", SHORT_S))
    await soak(database, server, tmp_path, seconds, database_of(request))


@pytest.mark.long
@pytest.mark.timeout(LONG_S + 1800)
async def test_an_hour_of_every_fault_charges_every_call_once(
    database: Database, server: RedisServer, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seconds = float(os.environ.get("SOAK_SECONDS", LONG_S))
    await soak(database, server, tmp_path, seconds, database_of(request))


def test_the_plan_of_a_soak_is_its_seed() -> None:
    """The same faults and the same calls each time, and every kind of fault in each round."""
    for tenant in tenants(60):
        name = f"soak-{tenant.name}-{tenant.callers}-0-7"
        assert named_call(SEED, name) == named_call(SEED, name)
    first = [slot for slot, _ in zip(slots(SEED), range(50), strict=False)]
    assert first == [slot for slot, _ in zip(slots(SEED), range(50), strict=False)]
    assert sorted(name for together in rounds(Random(SEED)) for name in together) == sorted(PARTS)
