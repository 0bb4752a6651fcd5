"""A fleet on real raylets, under streams: replicas, raylets, the head, watchers of notices, the
controller that leads and the one that stands by are killed or stopped at random.

Two auditors judge: the witness, who knows what each stream would have said undisturbed, and the one
who reads the rows of the ledger. The seed is in the name of a test.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import msgspec
import psutil
import pytest

from billing.tasks import end
from tests.chaos.auditor import (
    Auditor,
    Client,
    credits_differ,
    days_differ,
    hours_differ,
    nets_of,
    sums_differ,
)
from tests.chaos.fleet_parts import MODEL, FleetParts, Harm, Kind, fleet_parts
from tests.chaos.witness import Seen, Witness
from tests.journeys.test_moves import TOOL
from workers.controller.fleet_publisher import FLEET_KEY, Fleet

pytestmark = [pytest.mark.xdist_group("nodes"), pytest.mark.timeout(900)]
CALLERS = 4
TOKENS = 240
SEEDS = 3
"""Of each kind of question."""
PAUSE_S = (0.0, 1.0)
"""Between one harm and the next."""
LOOK_EVERY_S = 0.02
LOOKS_MAX = 4_500
EVERY_HARM = [Harm(kind, is_kill) for kind in Kind for is_kill in (True, False)]
LOST_HEAD = Harm(Kind.HEAD, is_kill=True)
"""Its nodes end with it, and a cluster takes the better part of a minute to return."""


def one_of_each_kind(rng: Random) -> list[Harm]:
    """Killed or stopped, of replica and raylet one each. The head is stopped."""
    is_killed = {kind: rng.random() < 0.5 for kind in Kind}
    is_killed |= {Kind.RAYLET: not is_killed[Kind.REPLICA], Kind.HEAD: False}
    return [Harm(kind, is_killed[kind]) for kind in Kind]


@pytest.fixture(scope="module")
def parts() -> Iterator[FleetParts]:
    with fleet_parts() as running:
        yield running


def questions() -> list[dict[str, Any]]:
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    story = {"messages": [{"role": "user", "content": "Tell me a story about a fox."}]}
    call = {"model": MODEL, "max_tokens": TOKENS, **story, **usage}
    text = {"extra_body": {"min_tokens": TOKENS - 20}}
    kinds: list[dict[str, Any]] = [
        {"temperature": 0, **text},
        {"temperature": 1, **text},
        {"temperature": 1, "tools": [TOOL], "tool_choice": "required"},
    ]
    return [call | kind | {"seed": seed} for kind in kinds for seed in range(SEEDS)]


class Streams(Witness):
    """Of callers who ask the same few questions again and again, whose answers are known."""

    async def undisturbed(self) -> None:
        self.questions = questions()
        self.expected = await asyncio.gather(*map(self.call, self.questions))
        assert all(each.is_whole for each in self.expected), self.expected

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[None]:
        stopping = asyncio.Event()

        async def caller() -> None:
            while not stopping.is_set():
                await self.call(self.rng.choice(self.questions))

        calling = [asyncio.create_task(caller()) for _ in range(CALLERS)]
        try:
            yield
        finally:
            stopping.set()
            await asyncio.gather(*calling)

    def differences(self) -> Iterator[str]:
        """Of whole answers from those that were never disturbed, in text, counts and charge."""
        for seen in self.seen:
            expected = self.expected[self.questions.index(seen.question)]
            if not seen.is_whole and seen.error is None:
                yield f"{seen.request_id} ended cleanly, and is not whole"
            elif not seen.is_whole and not begins(expected, seen):
                yield f"{seen.request_id} said {seen} of {expected}"
            elif seen.is_whole and told(seen) != told(expected):
                yield f"{seen.request_id} said {told(seen)}, undisturbed it is {told(expected)}"


def begins(whole: Seen, cut: Seen) -> bool:
    return whole.text.startswith(cut.text) and whole.arguments.startswith(cut.arguments)


def told(seen: Seen) -> tuple[str, str, int, int, str]:
    usage = seen.usage
    return seen.text, seen.arguments, usage.prompt_tokens, usage.completion_tokens, usage.cost


async def harm_at_random(
    parts: FleetParts, harms: Sequence[Harm], rng: Random, *, is_storm: bool
) -> None:
    """Each of them once, in any order. In a storm the next one does not wait until nothing is
    missing any more."""
    for harm in rng.sample(harms, len(harms)):
        await asyncio.to_thread(parts.harm, harm, rng)
        if not is_storm:
            await asyncio.to_thread(parts.until_whole)
        await asyncio.sleep(rng.uniform(*PAUSE_S))
    await asyncio.to_thread(parts.until_whole)


@asynccontextmanager
async def leaders_followed(parts: FleetParts) -> AsyncIterator[list[tuple[int, str]]]:
    """Who led, with the epoch, as snapshots of the fleet had it, one after the other."""
    leaders: list[tuple[int, str]] = []

    async def follow() -> None:
        with parts.stack.redis() as redis:
            while True:
                raw = await asyncio.to_thread(redis.get, FLEET_KEY)
                fleet = msgspec.json.decode(raw, type=Fleet)
                if not leaders or leaders[-1] != (fleet.epoch, fleet.controller):
                    leaders.append((fleet.epoch, fleet.controller))
                await asyncio.sleep(LOOK_EVERY_S)

    following = asyncio.create_task(follow())
    try:
        yield leaders
    finally:
        await end(following)


async def are_harmed_under_streams(
    parts: FleetParts, harms: Sequence[Harm], seed: int, *, is_storm: bool = False
) -> list[Seen]:
    streams = Streams(parts.stack, parts.stack.tenant(), Random(f"streams {seed}"))
    await streams.undisturbed()
    async with leaders_followed(parts) as leaders, streams.going_on():
        await harm_at_random(parts, harms, Random(f"harm {seed}"), is_storm=is_storm)
    outcomes = Counter("whole" if seen.is_whole else repr(seen.error) for seen in streams.seen)
    print(outcomes, leaders)
    records = await asyncio.to_thread(streams.assert_ledger_agrees)
    streams.assert_nothing_is_missing()
    assert list(streams.differences()) == []
    assert [epoch for epoch, _ in leaders] == sorted({epoch for epoch, _ in leaders}), leaders
    audit(parts)
    moved = [a for each in records for a in each["attempts"] if a["outcome"] == "moved"]
    assert moved, "no answer had to go on elsewhere"
    return streams.seen


def audit(parts: FleetParts) -> None:
    """No slot and no hold is open, every row sums up, and every law of the ledger holds."""
    parts.stack.wait_booked()
    auditor = Auditor(parts.sql_url, Client(0))
    books = auditor.read()
    wrong = [*sums_differ(books), *hours_differ(books), *days_differ(books)]
    wrong += [*credits_differ(books, ()), *books.open_holds]
    wrong += [f"{rid} is a dead letter: {why}" for rid, why in books.letters]
    for rid, net in nets_of(books).items():
        best = books.best(rid)
        if best is None or int(best["amount_nanousd"]) != net:
            wrong.append(f"{rid} nets to {net}: {best}")
    assert not wrong, wrong
    status, report = parts.stack.ledger_verify()
    broken = [each for each in report["checks"] if each["outcome"] != "holds"]
    assert status == 0, broken


def assert_whole(seen: Sequence[Seen]) -> None:
    assert all(each.is_whole for each in seen), [each.error for each in seen if not each.is_whole]


async def test_streams_go_on_whatever_part_of_the_fleet_is_killed_or_stopped(
    parts: FleetParts, seed: int
) -> None:
    harms = one_of_each_kind(Random(f"kinds {seed}"))
    assert_whole(await are_harmed_under_streams(parts, harms, seed))


async def test_streams_of_a_replica_that_stands_still_go_on_at_the_other_one(
    parts: FleetParts,
) -> None:
    """Its connections stay open and nobody says that it is gone: it is left after the silence that
    is usual of its pool, and `idle_timeout_s` is never waited for."""
    streams = Streams(parts.stack, parts.stack.tenant(), Random("stalled"))
    await streams.undisturbed()
    async with streams.going_on():
        stalled = await asyncio.to_thread(parts.stall)
        begun = [seen for seen in streams.seen if seen.deltas and not seen.is_over]
        try:
            for _ in range(LOOKS_MAX):
                await asyncio.sleep(LOOK_EVERY_S)
                if all(seen.is_over for seen in begun):
                    break
            assert all(seen.is_whole for seen in begun)
            assert stalled.process.status() == psutil.STATUS_STOPPED, "nobody has ended it"
        finally:
            stalled.process.resume()
    assert_whole(streams.seen)
    records = await asyncio.to_thread(streams.assert_ledger_agrees)
    assert list(streams.differences()) == []
    moved = [a for each in records for a in each["attempts"] if a["outcome"] == "moved"]
    assert moved and {each["replica"] for each in moved} == {stalled.replica}
    await asyncio.to_thread(parts.until_whole)
    audit(parts)


@pytest.mark.long
async def test_streams_go_on_whatever_way_each_part_of_the_fleet_is_harmed(
    parts: FleetParts, seed: int
) -> None:
    """But for a head that is killed."""
    harms = [harm for harm in EVERY_HARM if harm != LOST_HEAD]
    assert_whole(await are_harmed_under_streams(parts, harms, seed))


@pytest.mark.long
async def test_storm_over_a_fleet_that_loses_its_head_too_charges_what_callers_have(
    parts: FleetParts, seed: int
) -> None:
    await are_harmed_under_streams(parts, EVERY_HARM, seed, is_storm=True)
