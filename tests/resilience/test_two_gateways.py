"""Two gateways over one Redis and one ledger, and one provider that flaps, is slow, refuses and
lies in turn: the other provider serves nearly every call, and nothing stays open in either."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from itertools import count
from time import monotonic

import pytest

from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT, Behaviour
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import FIRST, Scene, Seen, price_nanousd

EACH = range(2)
AT_ONCE = 10
"""Calls, half of them at each gateway and half of them streamed: at each gateway as many as fail in
a row before a breaker opens."""
SOON_S, SLOW_S = 4.0, 0.3
"""How long a gateway waits for a first token, and a slow server takes for it: far apart, for a busy
machine makes a good server late too."""
MAX_TOKENS = 64
SHARE = 0.995
LONGEST_PAUSE_S = 120.0
"""Of an open breaker."""
CLOSED_WITHIN = 20
GAUGES = ("sluice_open_calls", "sluice_unsettled_calls", "sluice_waiting_calls")
PHASES: dict[str, Behaviour] = {
    "flaps": does.in_turn(*[does.resets] * 12, *[does.well] * 12),
    "is slow": does.in_turn(*[does.silent] * 12, *[does.late(SLOW_S)] * 12),
    "refuses": does.in_turn(
        *[does.refuses(500)] * 12,
        *[does.refuses(429, retry_after="1")] * 2,
        does.refuses(503),
        does.refuses(402),
    ),
    "lies": does.in_turn(
        does.boasts,
        does.babbles,
        does.shows_a_page,
        does.malformed_after(4),
        does.ends_after(4),
        does.cut_after(4),
        does.without_done,
    ),
}
ROUNDS = {"flaps": 6, "is slow": 2, "refuses": 6, "lies": 6}
"""Of calls at once, of the short version."""
TURNS, TURN_S, BETWEEN_S = 4, 37.5, 0.5
"""Of the long version: four times all phases, ten minutes together."""


class Crowd:
    """Callers of both gateways, and what they saw."""

    def __init__(self, scene: Scene) -> None:
        self.seen: list[Seen] = []
        self._scene = scene
        self._numbers = count()

    async def call(self, calls: int = AT_ONCE) -> None:
        """At once."""
        self.seen += await asyncio.gather(*(self._call() for _ in range(calls)))

    def _call(self) -> Awaitable[Seen]:
        number = next(self._numbers)
        return self._scene.call(
            stream=number % 4 < 2, gateway=number % len(EACH), max_tokens=MAX_TOKENS
        )

    @property
    def failed(self) -> list[Seen]:
        """Calls without the whole answer; another provider could have served each of them."""
        return [seen for seen in self.seen if not is_whole(seen)]


def is_whole(seen: Seen) -> bool:
    return seen.status == 200 and seen.error is None and seen.is_done and seen.text == TEXT


async def test_what_one_provider_does_costs_callers_of_two_gateways_nothing(
    open_scene: OpenScene,
) -> None:
    async def phase(scene: Scene, crowd: Crowd, name: str) -> None:
        for _ in range(ROUNDS[name]):
            await crowd.call()
            scene.edge.watch.passed_s += 6.0  # the breakers let probes through

    await suffers(open_scene, phase, turns=1)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_what_one_provider_does_in_ten_minutes_costs_callers_of_two_gateways_nothing(
    open_scene: OpenScene,
) -> None:
    async def phase(scene: Scene, crowd: Crowd, name: str) -> None:
        until_s = monotonic() + TURN_S
        while monotonic() < until_s:
            await crowd.call()
            await asyncio.sleep(BETWEEN_S)

    await suffers(open_scene, phase, turns=TURNS)


async def suffers(
    open_scene: OpenScene,
    phase: Callable[[Scene, Crowd, str], Awaitable[None]],
    *,
    turns: int,
) -> None:
    """All phases in turn; then the provider is well again, and so are the breakers and books."""
    scene = await open_scene(gateways=len(EACH), external_first_token_timeout_s=SOON_S)
    await scene.policy("{order: [pool:first]}")  # however slow it is known to be
    crowd = Crowd(scene)
    for _ in range(turns):
        for name, behaviour in PHASES.items():
            scene.first.then = behaviour
            await phase(scene, crowd, name)
            scene.first.then = does.well
            await heals(scene, crowd)
    failed = [(seen.status, seen.response.body[-300:]) for seen in crowd.failed]
    assert len(failed) <= (1 - SHARE) * len(crowd.seen), failed
    assert scene.second.asked, "the other provider served calls"
    assert_opened(scene)
    await assert_books(scene, crowd)
    for number in EACH:
        await assert_gauges(scene, number)


async def heals(scene: Scene, crowd: Crowd) -> None:
    """Until both gateways say that the breaker is closed, and nothing of it is left."""
    for _ in range(CLOSED_WITHIN):
        for each in scene.gateways:
            await each.parts.health.refresh()
        states = {(await scene.breaker(FIRST, number))["state"] for number in EACH}
        scene.edge.watch.passed_s += LONGEST_PAUSE_S
        if states == {"closed"}:
            return
        await crowd.call(len(EACH) * 2)
    raise AssertionError(f"a breaker stays open: {states}")


def assert_opened(scene: Scene) -> None:
    """Breakers opened for what each phase is; that they closed again is seen after each."""
    openings = [each.parts.breakers.openings for each in scene.gateways]
    assert all(openings), "at both gateways"
    reasons = {reason for each in openings for _, reason in each}
    assert reasons >= {"reset", "silent"}, reasons
    assert reasons & {"server_error", "refused_us"}, reasons


async def assert_books(scene: Scene, crowd: Crowd) -> None:
    """One charge for each call that was answered, never for more than was asked for; nothing is
    held, and the laws of the ledger are true."""
    books = await scene.books()
    assert {seen.rid for seen in crowd.seen} <= set(books)
    for seen in crowd.seen:
        call = books[seen.rid]
        assert call.usage.output <= MAX_TOKENS and call.usage.prompt <= 4096
        assert call.amount_nanousd == (price_nanousd(call) if call.usage.output else 0), call
        assert call.usage.output or not is_whole(seen), "an answer is not for free"


async def assert_gauges(scene: Scene, number: int) -> None:
    text = (await scene.shows("/metrics", number)).text
    for name in GAUGES:
        values = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.M)
        assert values or name == "sluice_waiting_calls"
        assert not any(map(float, values)), (name, values)
