"""Every way in which a part may fail, each by name, over either database: whatever happens, every
call is charged once, and what its client was told is what it is charged.

The parts are real processes (`world`), the harm is done while calls are under way, and who judges
is an auditor that knows the clients' side alone (`auditor`). `docs/failures.md` has the table.
"""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from tests.chaos import faults
from tests.chaos.auditor import Books
from tests.chaos.plan import CHECKPOINT_EVERY, POOR, PREPAID, Ending, planned
from tests.chaos.world import AUDIT_EVERY_S, EDGES, LEDGER, World, running

pytestmark = pytest.mark.timeout(480)
DIES_WITHIN_S = 120.0
SLEPT_WITHIN_S = 240.0
DENIED = (POOR, PREPAID)
"""Whose calls are also refused or cut short for other reasons."""


@pytest.fixture
def rng(seed: int) -> Random:
    return Random(seed)


@asynccontextmanager
async def audited(world: World, rng: Random, *, answers: int = 20) -> AsyncIterator[World]:
    """Harm is done in the block; before and after it there are answers, and at the end an audit."""
    async with running(world):
        await world.heard(answers)
        yield world
        await world.heard(answers)
        world.books = await world.finish(rng)


# --- who judges ----------------------------------------------------------------------------------


async def test_auditor_finds_answers_that_are_billed_half(world: World, rng: Random) -> None:
    """It goes by what clients heard and by its own price list: never by what the product says."""
    async with running(world, edges=()):
        await world.start_edge(EDGES[0], bills_half=True)
        await world.heard(10)
        found: list[str] = []

        async def are_found() -> bool:
            books = await asyncio.to_thread(world.auditor.read)
            found[:] = [why for why in world.auditor.breaks(books) if "was heard and" in why]
            return len(found) > 1

        await world.until(are_found, DIES_WITHIN_S, lambda: "halves to be found", AUDIT_EVERY_S)


# --- a gateway dies ------------------------------------------------------------------------------


async def test_gateway_killed_before_admit_costs_nothing(world: World, rng: Random) -> None:
    async with audited(world, rng):
        await world.dies_at(
            EDGES[0],
            *("holds.admit:before:5", "holds.admit:after:6", "spool.opened:before:7"),
        )
    unanswered = [
        rid
        for rid, heard in world.client.calls.items()
        if not (heard.admitted or heard.failed or heard.left)
    ]
    assert unanswered
    for rid in unanswered:
        best = world.books.best(rid)
        assert best is None or not int(best["amount_nanousd"])


async def test_gateway_killed_in_the_middle_of_streams_is_charged_by_their_checkpoints(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        await world.dies_at(
            EDGES[0],
            *("spool.opened:after:9", "spool.checkpoint:before:12"),
            *("spool.checkpoint:after:12", "holds.renew:after:12"),
        )
    estimated = [row for row in world.books.events.values() if row["source"] == "estimated"]
    assert any(int(row["amount_nanousd"]) for row in estimated)


async def test_gateway_killed_after_the_stream_and_before_settling_is_charged_exactly(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        await world.dies_at(
            EDGES[0],
            *("spool.closed:before:9", "spool.closed:after:9", "holds.settle:before:9"),
            *("spool.closed:after:6", "holds.settle:after:9"),
        )


async def test_gateway_that_slept_past_its_leases_corrects_what_was_estimated(
    world: World, rng: Random
) -> None:
    """The reaper takes it for dead; it wakes and sees its streams to their end."""
    estimated: set[str] = set()
    async with audited(world, rng):
        async with asyncio.timeout(SLEPT_WITHIN_S):
            while not estimated:
                estimated = await estimated_asleep(world, EDGES[0])
    for rid in estimated:
        assert world.books.corrections[rid][-1]["source"] == "exact"
        assert {row["kind"] for row in world.books.transfers if row["rid"] == rid} >= {"reversal"}


async def estimated_asleep(world: World, name: str) -> set[str]:
    """The edge sleeps in the midst of streams until the reaper has come by for all of them; which
    it has charged, and for less than they will come to. None if they had just ended, say."""
    streams = await in_the_midst(world, name)
    world.signal(name, signal.SIGSTOP)
    try:
        books = await booked(world, streams)
    finally:
        world.signal(name, signal.SIGCONT)
    return {
        rid
        for rid in streams
        if books.events[rid]["source"] == "estimated"
        and int(books.events[rid]["amount_nanousd"]) > 0
        and int(books.events[rid]["output"]) < planned(world.seed, rid).output
    }


async def in_the_midst(world: World, name: str) -> set[str]:
    """Streams of an edge behind a checkpoint and before their last frame, once there are any;
    nobody will end them early."""
    found: set[str] = set()

    async def are_some() -> bool:
        for rid, heard in world.client.calls.items():
            wanted = planned(world.seed, rid)
            is_here = rid.startswith(f"{name}-") and not heard.whole
            goes_on = wanted.stream and wanted.ending is Ending.WHOLE
            is_amid = CHECKPOINT_EVERY < heard.frames < len(wanted.frames) - 1
            if is_here and goes_on and is_amid and wanted.org not in DENIED:
                found.add(rid)
        return bool(found)

    await world.until(are_some, DIES_WITHIN_S, lambda: f"a stream of {name}", every_s=0.01)
    return found


async def booked(world: World, rids: set[str]) -> Books:
    books = [await asyncio.to_thread(world.auditor.read)]

    async def are_booked() -> bool:
        books.append(await asyncio.to_thread(world.auditor.read))
        return rids <= books[-1].events.keys()

    await world.until(are_booked, DIES_WITHIN_S, lambda: f"{rids} to be booked", AUDIT_EVERY_S)
    return books[-1]


async def test_gateways_killed_at_any_moment(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(4):
            await asyncio.sleep(rng.uniform(0, 0.4))
            await faults.kill_an_edge(world, rng)


# --- the ledger dies, and its writing is raced for -----------------------------------------------


async def test_ledger_killed_at_every_step_between_reading_and_trimming(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        for step in ("book:before", "book:after", "acknowledge:before", "acknowledge:after"):
            await world.kill9(LEDGER)
            await world.start_ledger(die=f"{step}:2")
            assert await world.ended(LEDGER, DIES_WITHIN_S) == -signal.SIGKILL
            await world.start_ledger()
        await world.kill9(LEDGER)
        await world.start_ledger(die="trim:before:2")
        assert await world.ended(LEDGER, DIES_WITHIN_S) == -signal.SIGKILL
        await world.start_ledger()


async def test_ledger_killed_at_any_moment(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(3):
            await asyncio.sleep(rng.uniform(0, 0.4))
            await faults.kill_the_ledger(world, rng)


async def test_two_ledgers_that_take_over_from_each_other_book_once(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        await faults.rival_ledger(world, rng)
        await faults.wake_a_ledger_that_was_replaced(world, rng)


# --- Redis ---------------------------------------------------------------------------------------


async def test_redis_killed_again_and_again(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(3):
            await asyncio.sleep(rng.uniform(0, 0.4))
            await faults.kill_redis(world, rng)


async def test_redis_that_hangs(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(2):
            await faults.stop_redis(world, rng)
            await asyncio.sleep(rng.uniform(0, 0.4))


async def test_redis_wiped_is_filled_from_sql_before_anything_is_admitted(
    world: World, rng: Random
) -> None:
    """A budget is never overspent for it, which the auditor sees to."""
    async with audited(world, rng):
        await faults.wipe_redis(world, rng)
        await asyncio.sleep(rng.uniform(0, 0.6))
        await faults.empty_redis(world, rng)
        await faults.kill_an_edge(world, rng)
        for name in EDGES:
            await world.said(name, "ready")
        await faults.wipe_redis(world, rng)


async def test_redis_without_room_admits_nothing_and_loses_nothing(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        for _ in range(2):
            await faults.starve_redis(world, rng)
            await asyncio.sleep(rng.uniform(0, 0.4))


# --- SQL -----------------------------------------------------------------------------------------


async def test_sql_down_while_calls_go_on(world: World, rng: Random) -> None:
    async with audited(world, rng):
        async with world.database.down():
            await world.heard(10)
        await faults.take_sql_down(world, rng)


async def test_sql_locked_while_calls_go_on(world: World, rng: Random) -> None:
    async with audited(world, rng):
        async with world.database.locked():
            await world.heard(10)
        await faults.lock_sql(world, rng)


async def test_full_disk_of_sql_loses_nothing(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(2):
            await faults.fill_the_disk_of_sql(world, rng)
            await asyncio.sleep(0.3)


async def test_full_disk_of_a_spool_admits_nothing_and_loses_nothing(
    world: World, rng: Random
) -> None:

    async def has_refused() -> bool:
        return any(
            heard.failed and heard.failed[0] == 503 and not heard.admitted
            for rid, heard in world.client.calls.items()
            if planned(world.seed, rid).org not in DENIED
        )

    async with audited(world, rng):
        assert not await has_refused()
        for name in EDGES:
            world.knobs(name).disk_is_full = True
        await world.until(has_refused, DIES_WITHIN_S, lambda: "a refusal")
        for name in EDGES:
            world.knobs(name).disk_is_full = False


# --- deliveries ----------------------------------------------------------------------------------


async def test_deliveries_duplicated_and_reordered_change_nothing(
    world: World, rng: Random
) -> None:
    async with audited(world, rng):
        for _ in range(4):
            await world.redeliver(rng, share=0.7)
            await asyncio.sleep(0.1)


async def test_poison_goes_to_dead_letter_once_and_stops_nobody(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(3):
            await faults.poison(world, rng)
            await asyncio.sleep(0.2)

        async def is_told() -> bool:
            books = await asyncio.to_thread(world.auditor.read)
            return Counter(rid for rid, _ in books.letters) == Counter(world.poisoned)

        await world.until(is_told, DIES_WITHIN_S, lambda: world.poisoned, AUDIT_EVERY_S)


# --- clocks --------------------------------------------------------------------------------------


async def test_clocks_that_jump_charge_nobody_otherwise(world: World, rng: Random) -> None:
    async with audited(world, rng):
        for _ in range(3):
            await faults.jump_clocks(world, rng)
            await asyncio.sleep(0.2)


# --- what clients and workers do -----------------------------------------------------------------


async def test_clients_that_leave_and_tries_that_fail_are_charged_once(
    world: World, rng: Random
) -> None:
    """Without harm: who leaves pays for what was made, and what failed tries made is our cost."""
    async with audited(world, rng, answers=30):
        pass
    left = [
        rid
        for rid, heard in world.client.calls.items()
        if heard.left and heard.frames and not heard.whole
    ]
    assert left
    best = {rid: world.books.best(rid) for rid in left}
    assert all(record and record["status"] == "cancelled" for record in best.values()), best
    tried = [
        rid
        for rid, heard in world.client.calls.items()
        if heard.whole and planned(world.seed, rid).wasted
    ]
    assert tried
    attempts = await asyncio.to_thread(world.auditor.attempts)
    for rid in tried:
        wanted = planned(world.seed, rid)
        wasted = [output for outcome, output in attempts[rid] if outcome == "cut"]
        assert wasted == list(wanted.wasted)
