"""What a policy says of failures: the models to fall back on, how often and how long to try."""

from __future__ import annotations

from time import monotonic

import pytest

from tests.gateway.edge import FAR, LARGE
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import Scene, Seen, outcomes

GENERAL = f"{{fallbacks: [{LARGE}]}}"
CONTEXT = f"{{fallbacks: {{context_window: [{LARGE}]}}}}"
LONG = [{"role": "user", "content": "word " * 1_500}]
"""More bytes than FAR has room for, and not more than LARGE has."""


async def ends_on(scene: Scene, seen: Seen, model: str, *expected: tuple[str, str]) -> None:
    """The whole answer by that model, charged once, after these attempts."""
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    call = await scene.charged(seen)
    assert (call.model, call.model_requested) == (model, FAR)
    assert outcomes(call) == [*expected]


async def test_s12_a_call_that_its_provider_finds_too_long_goes_to_the_larger_model(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    await scene.policy(CONTEXT)
    scene.first.then = does.refuses(400, code=does.CONTEXT_LENGTH)
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 0, 1), "one attempt at the first, and none beside it"
    await ends_on(scene, seen, LARGE, ("first", "rejected"), ("larger", "answered"))


async def test_s12_a_call_that_is_too_long_by_our_own_count_goes_to_the_larger_model(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    seen = await scene.call(stream=stream, messages=LONG)
    assert seen.status == 400 and seen.error and seen.error["code"] == does.CONTEXT_LENGTH
    await scene.policy(CONTEXT)
    seen = await scene.call(stream=stream, messages=LONG)
    assert scene.asked() == (0, 0, 1)
    await ends_on(scene, seen, LARGE, ("larger", "answered"))


@pytest.mark.parametrize("route", [GENERAL, "{}"], ids=["general", "none"])
async def test_s12_without_a_larger_model_the_refusal_is_passed_on(
    open_scene: OpenScene, stream: bool, route: str
) -> None:
    scene = await open_scene()
    await scene.policy(route)
    scene.first.then = does.refuses(400, code=does.CONTEXT_LENGTH)
    for more in ({}, {"messages": LONG}):
        seen = await scene.call(stream=stream, **more)
        assert seen.status == 400 and seen.error and seen.error["code"] == does.CONTEXT_LENGTH
    assert scene.asked() == (1, 0, 0)


async def test_a_call_that_fits_is_never_on_the_model_for_longer_ones(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(CONTEXT)
    scene.first.then = does.refuses(500)
    assert (await scene.call(stream=stream)).status == 503
    assert scene.asked() == (2, 0, 0)


async def test_another_model_answers_where_all_places_of_the_first_fail(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    await scene.policy(GENERAL)
    for provider in (scene.first, scene.second):
        provider.then = does.resets
    seen = await scene.call(stream=stream)
    assert scene.asked() == (2, 2, 1), "each is asked once more before"
    await ends_on(
        scene,
        seen,
        LARGE,
        *[("first", "cut"), ("second", "cut")] * 2,
        ("larger", "answered"),
    )


async def test_s01_two_seconds_are_waited_out_before_another_model_is_taken(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, first=[does.refuses(429, retry_after="2")])
    await scene.policy(GENERAL)
    began_s = monotonic()
    seen = await scene.call(stream=stream)
    assert monotonic() - began_s >= 1.8
    assert scene.asked() == (2, 0, 0)
    await ends_on(scene, seen, FAR, ("first", "saturated"), ("first", "answered"))


async def test_s02_another_model_answers_where_the_first_refuses_for_ever(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(GENERAL)
    scene.first.then = does.refuses(429, retry_after="30")
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 0, 1)
    await ends_on(scene, seen, LARGE, ("first", "saturated"), ("larger", "answered"))
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 0, 2), "it cools down, and is not asked"
    await ends_on(scene, seen, LARGE, ("larger", "answered"))


@pytest.mark.parametrize(
    "wish", [{"disable_fallbacks": True}, {"provider": {"allow_fallbacks": False}}]
)
async def test_g39_a_call_that_disables_fallbacks_stays_where_it_is(
    open_scene: OpenScene, stream: bool, wish: dict[str, object]
) -> None:
    scene = await open_scene()
    await scene.policy(GENERAL)
    scene.first.then = does.refuses(500)
    seen = await scene.call(stream=stream, **wish)
    assert seen.status == 503
    assert scene.asked() == (2, 0, 0), "once more at its own place, and nowhere else"
    await scene.charged(seen, words=0)


async def test_a_policy_bounds_the_retries_of_a_call(open_scene: OpenScene, stream: bool) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy("{retries: {max: 0}}")
    scene.first.then = does.refuses(500)
    assert (await scene.call(stream=stream)).status == 503
    assert scene.asked() == (1, 0, 0)
    await scene.books()


async def test_a_policy_bounds_the_retry_after_that_is_waited_out(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy("{retries: {retry_after_max_ms: 500}}")
    scene.first.then = does.refuses(429, retry_after="1")
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.response.headers["retry-after"]) == (503, "1")
    assert scene.asked() == (1, 0, 0)
    await scene.books()


async def test_a_policy_bounds_the_time_for_a_first_token(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    await scene.policy("{timeouts: {first_token_ms: 1000, idle_ms: 9000, connect_ms: 1500}}")
    scene.first.then = does.silent
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 1, 0)
    await ends_on(scene, seen, FAR, ("first", "cut"), ("second", "answered"))
