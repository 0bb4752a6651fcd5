"""How long a first attempt waits for its first token, once it is known what is usual."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import Scene, Seen, outcomes

LATE_S = 5.0
"""Later than thrice what is usual, and within the gateway's bound."""
TAUGHT = 8
NO_HEDGE = "order: [pool:first], hedge: {share: 0}"


async def taught(open_scene: OpenScene, route: str = NO_HEDGE, **of_scene: Any) -> Scene:
    """A scene whose first server is known to be quick, and is late from now on."""
    scene = await open_scene(external_first_token_timeout_s=60.0, **of_scene)
    await scene.policy(f"{{{route}}}")
    for _ in range(TAUGHT):
        assert (await scene.call(stream=True)).text == TEXT
    await scene.edge.parts.fleet.refresh()
    scene.first.then = does.late(LATE_S)
    return scene


async def outcome(scene: Scene, seen: Seen) -> list[tuple[str, str]]:
    assert (seen.status, seen.text) == (200, TEXT)
    return outcomes(await scene.charged(seen))


async def test_a_priority_call_leaves_a_server_that_is_later_than_ever(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await taught(open_scene)
    seen = await scene.call(stream=stream, service_tier="priority")
    assert await outcome(scene, seen) == [("first", "cut"), ("second", "answered")]


async def test_a_call_of_another_tier_leaves_it_later(open_scene: OpenScene) -> None:
    scene = await taught(open_scene)
    scene.first.then = does.late(2 * LATE_S)
    default, flex = await asyncio.gather(
        *[scene.call(stream=True, service_tier=tier) for tier in ("default", "flex")]
    )
    assert (default.text, flex.text) == (TEXT, TEXT)
    attempts = [(each.pool, each.outcome) for each in await scene.attempts()]
    assert sorted(attempts)[TAUGHT:] == [
        ("first", "answered"),
        ("first", "cut"),
        ("second", "answered"),
    ]


@pytest.mark.parametrize(
    ("tier", "route", "of_scene"),
    [
        ("default", NO_HEDGE, {}),
        ("priority", NO_HEDGE, {"only_first": True}),
        ("priority", NO_HEDGE, {"pools": {"first": {"first_token_timeout_s": 60.0}}}),
        ("priority", NO_HEDGE + ", timeouts: {first_token_ms: 60000}", {}),
        ("priority", NO_HEDGE + ", retries: {max: 0}", {}),
    ],
    ids=["in less of a hurry", "alone", "by its pool", "by the policy", "without retries"],
)
async def test_a_late_server_is_waited_for(
    open_scene: OpenScene, tier: str, route: str, of_scene: dict[str, Any]
) -> None:
    scene = await taught(open_scene, route, **of_scene)
    seen = await scene.call(stream=True, service_tier=tier)
    assert await outcome(scene, seen) == [("first", "answered")]


async def test_servers_that_are_all_late_still_answer(open_scene: OpenScene, stream: bool) -> None:
    """Only a first attempt is cut short."""
    scene = await taught(open_scene)
    scene.second.then = does.late(LATE_S)
    seen = await scene.call(stream=stream, service_tier="priority")
    assert await outcome(scene, seen) == [("first", "cut"), ("second", "answered")]
