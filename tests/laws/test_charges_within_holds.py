"""What is charged never exceeds what is held, whatever a server outside reports.

Upstream answers here have a usage that has nothing to do with their pieces: more, less, none,
beyond reason, early, late, more than once. Laws: the charge is at most the hold; the usage that is
booked and told is the one that is charged; our cost is at least what the server reported.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from billing.limits.holds import Holds
from billing.money import usd
from billing.spool.segments import SpoolLineKind, read_lines, segments
from billing.types import OpenedCall, SettledCall, decode_opened
from gateway.upstream import fake
from tests.gateway.admin.test_credits import GRANT, admin, settle
from tests.gateway.edge import OUTPUT_PRICE, Edge, Response, body, edge
from tests.redis_server import RedisServer

INPUT, OUTPUT = 1_000, OUTPUT_PRICE // 10**6
"""Nano-USD a token: each part of a prompt, and each part of a completion."""
SLICE = 16
BUSY = fake.refusal(503, {"message": "busy"})
QUICK = {
    "output_slice_tokens": SLICE,
    "external_first_token_timeout_s": 20.0,
    "external_idle_timeout_s": 20.0,
}


# --- what a server outside may answer ------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """What it says was used; `odd` in the place of the completion where it is no such number."""

    prompt: int
    output: int
    cached: int = 0
    reasoning: int = 0
    written: int = 0
    odd: Any = None

    @property
    def said(self) -> dict[str, Any]:
        parts = (self.prompt, self.output, self.cached, self.reasoning, self.written)
        odd = {} if self.odd is None else {"completion_tokens": self.odd}
        return fake.usage_document(*parts) | odd


@dataclass(frozen=True)
class Answered:
    """`pieces` are choices and whether they think; `reports` stand before so many pieces."""

    choices: int
    pieces: tuple[tuple[int, bool], ...]
    reports: tuple[tuple[int, Report], ...]
    with_last_word: bool
    """A report comes in the event that ends the answer."""
    in_one_piece: bool
    is_cut: bool

    @property
    def is_odd(self) -> bool:
        return any(report.odd is not None for _, report in self.reports)

    def script(self) -> fake.Script:
        if self.in_one_piece:
            usage = self.reports[-1][1].said if self.reports else None
            texts = [
                "".join("word " for i, _ in self.pieces if i == c) for c in range(self.choices)
            ]
            return fake.plain_document(texts, usage)
        return fake.stream(*self._events(), then=[fake.Close()] if self.is_cut else [])

    def _events(self) -> Iterator[bytes]:
        for place, (choice, thinks) in enumerate(self.pieces):
            yield from self._reports_at(place)
            yield (
                fake.plain_thought("hm ", choice)
                if thinks
                else fake.plain_frame("word ", None, choice)
            )
        if self.is_cut:
            yield from self._late()
            return
        late = [report for place, report in self.reports if place >= len(self.pieces)]
        for choice in range(self.choices):
            is_last = choice == self.choices - 1
            ends = {"choices": [{"index": choice, "delta": {}, "finish_reason": "stop"}]}
            if is_last and self.with_last_word and late:
                ends["usage"] = late.pop(0).said
            yield fake.event(ends)
        for report in late:
            yield fake.event({"choices": [], "usage": report.said})
        yield fake.DONE

    def _late(self) -> Iterator[bytes]:
        yield from self._reports_at(len(self.pieces))

    def _reports_at(self, place: int) -> Iterator[bytes]:
        for at, report in self.reports:
            if at == place:
                yield fake.event({"choices": [], "usage": report.said})


TOKENS = st.sampled_from([0, 1, 3, 7, 40, 64, 65, 200, 2_000, 150_000, 33_000_000])
ODD = st.sampled_from([-1, 2**63, 2**70, 1.5, "9", []])
reports = st.builds(
    Report, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS, st.one_of(st.none(), st.none(), st.none(), ODD)
)


@st.composite
def answers(draw: st.DrawFn) -> Answered:
    choices = draw(st.integers(1, 3))
    piece = st.tuples(st.integers(0, choices - 1), st.booleans())
    pieces = tuple(draw(st.lists(piece, min_size=1, max_size=10)))
    place = st.integers(0, len(pieces) + 2)
    said = draw(st.lists(st.tuples(place, reports), max_size=3))
    return Answered(
        choices,
        pieces,
        tuple(sorted(said, key=lambda each: each[0])),
        *(draw(st.booleans()), draw(st.booleans()), draw(st.integers(0, 4)) == 0),
    )


# --- a gateway -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Bench:
    """One gateway for all examples, on a loop that runs while one of them does."""

    runner: asyncio.Runner
    edge: Edge
    outside: fake.FakeUpstream
    reached: Counter[str] = field(default_factory=Counter)
    seen: set[str] = field(default_factory=set)


@asynccontextmanager
async def _gateway(
    server: RedisServer, folder: Path, limits: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Edge, fake.FakeUpstream]]:
    """Whose own workers are busy, and which buys from a server outside."""
    async with (
        fake.FakeUpstream(lambda _: BUSY) as outside,
        server.client() as redis,
        edge(
            *(server, redis, folder),
            gateway=QUICK,
            limits=limits,
            behaviour=lambda _: BUSY,
            outer=outside.address,
        ) as running,
    ):
        running.holds = Holds(redis, timeout_s=30.0)  # to look at the money on a busy machine
        yield running, outside


@pytest.fixture
def bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
        asyncio.Runner() as runner,
    ):
        gateway = _gateway(server, Path(folder))
        yield Bench(runner, *runner.run(gateway.__aenter__()))
        runner.run(gateway.__aexit__(None, None, None))


def opened_calls(one: Edge) -> dict[str, OpenedCall]:
    found = {}
    for segment in segments(one.spool_root, one.gateway_id):
        for line in read_lines(segment):
            if line.k is SpoolLineKind.OPENED:
                found[line.r] = decode_opened(bytes(line.p))
    return found


def owed(call: SettledCall) -> int:
    """By the price list, which has one price for a prompt and one for a completion."""
    return INPUT * call.usage.prompt + OUTPUT * call.usage.completion


def told(response: Response, stream: bool) -> dict[str, Any] | None:
    """The usage that the caller was told."""
    if response.status != 200:
        return None
    if not stream:
        usage: dict[str, Any] = response.json["usage"]
        return usage
    return next((chunk["usage"] for chunk in response.chunks[::-1] if chunk.get("usage")), None)


# --- laws ----------------------------------------------------------------------------------------

ASKED = st.sampled_from([1, 4, SLICE, 40, 64, 300])


def test_no_report_of_a_server_outside_is_charged_above_what_is_held(bench: Bench) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(answered=answers(), stream=st.booleans(), most=ASKED)
    def law(answered: Answered, stream: bool, most: int) -> None:
        bench.runner.run(_one_example(bench, answered, stream, most))

    law()
    wanted = {"above", "below", "absent", "odd", "cut", "document", "stream", "reasoning", "cached"}
    assert bench.reached.keys() >= wanted, bench.reached


async def _one_example(bench: Bench, answered: Answered, stream: bool, most: int) -> None:
    one = bench.edge
    bench.outside.scripts.clear()
    bench.outside.behaviour = lambda _: answered.script()
    sent = body(max_tokens=most, n=answered.choices, stream=stream)
    if not stream:
        sent.pop("stream_options")
    response = await one.post(sent)
    assert response.is_complete
    calls = await one.settled()
    (rid,) = calls.keys() - bench.seen
    bench.seen.add(rid)
    call = calls[rid]
    _hold_the_laws(one, call, told(response, stream), answered, most * answered.choices)
    for what in _what_was_reached(call, answered, bench.outside.requests[-1].body):
        bench.reached[what] += 1
        event(what)


def _hold_the_laws(
    one: Edge, call: SettledCall, heard: dict[str, Any] | None, answered: Answered, most: int
) -> None:
    opened = opened_calls(one)[call.rid]
    assert call.usage.completion <= most
    assert call.usage.prompt <= opened.prompt_tokens
    assert call.amount_nanousd <= opened.hold_nanousd
    assert call.amount_nanousd == owed(call), "the usage booked is the basis of the charge"
    if heard is not None:
        assert heard["prompt_tokens"] == call.usage.prompt
        assert heard["completion_tokens"] == call.usage.completion
    if call.status == "answered" and not answered.is_odd:
        paid = call.attempts[-1]
        said = [report for _, report in _read(answered)]
        if call.error_code is None and call.finish_reason == "stop":
            prompt = paid.input + paid.cached_input + paid.cache_write
            assert prompt >= max([report.prompt for report in said], default=0)
            completion = paid.output + paid.reasoning
            assert completion >= max([report.output for report in said], default=0)


def _read(answered: Answered) -> list[tuple[int, Report]]:
    """A document has room for one report, the last."""
    return list(answered.reports[-1:] if answered.in_one_piece else answered.reports)


def _what_was_reached(call: SettledCall, answered: Answered, sent: dict[str, Any]) -> set[str]:
    found = {"document" if answered.in_one_piece else "stream"}
    found |= {"cut"} if answered.is_cut and not answered.in_one_piece else set()
    found |= {"odd"} if answered.is_odd else set()
    if call.status != "answered":
        return found
    paid = call.attempts[-1]
    found |= {"above"} if paid.delivered > call.usage.total else set()
    found |= {"absent"} if not answered.reports else set()
    found |= {"reasoning"} if call.reasoning else set()
    found |= {"cached"} if call.cached_input else set()
    if answered.reports and call.usage.completion < len(answered.pieces):
        found.add("below")
    return found


# --- many callers, and one budget ----------------------------------------------------------------

CALLERS = 30
MOST = 40
LYING = Answered(
    *(1, ((0, False), (0, True), (0, False)), ((3, Report(150_000, 2_000, 99, 1_500)),)),
    *(False, False, False),
)


@pytest.mark.parametrize("is_prepaid", [False, True], ids=["budget", "prepaid"])
@pytest.mark.parametrize(
    ("stream", "in_one_piece", "most"),
    [(True, False, MOST), (False, False, MOST), (False, True, SLICE)],
    ids=["streamed", "gathered", "document"],
)
def test_many_callers_at_once_never_overspend_whatever_is_reported(
    is_prepaid: bool, stream: bool, in_one_piece: bool, most: int
) -> None:
    nanousd = 7 * (60 * INPUT + most * OUTPUT)  # more than seven of them may cost
    limits = {} if is_prepaid else {"budget_nanousd": nanousd, "budget_window": "total"}

    async def run(folder: Path, server: RedisServer) -> None:
        async with _gateway(server, folder, limits) as (one, outside):
            outside.behaviour = lambda _: replace(LYING, in_one_piece=in_one_piece).script()
            if is_prepaid:
                await settle(one, settlement_mode="prepaid")
                await admin(one, "POST", "/credits", GRANT | {"amount_usd": usd(nanousd)})
            sent = body(max_tokens=most, stream=stream, stream_options=None)
            answers = await asyncio.gather(*(one.post(sent) for _ in range(CALLERS)))
            statuses = Counter(answer.status for answer in answers)
            calls = await one.settled()
            assert 0 < sum(call.amount_nanousd for call in calls.values()) <= nanousd
            # one that gets a slice and no further one before its answer begins is a 429 too, so
            # how many are answered depends on whose turn it is
            assert statuses[200] > 0 and statuses[429] >= CALLERS // 2, statuses
            paid = [call.attempts[-1] for call in calls.values() if call.amount_nanousd]
            assert all(attempt.output + attempt.reasoning == 2_000 for attempt in paid)

    with tempfile.TemporaryDirectory(prefix="sluice-") as name, RedisServer(Path(name)) as server:
        asyncio.run(run(Path(name), server))
