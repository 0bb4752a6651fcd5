"""Scenarios in which no answer has begun: who is asked next, and what the books say after it."""

from __future__ import annotations

from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import outcomes


async def test_s05_a_reset_before_any_byte_goes_to_another_place(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.resets])
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert scene.asked() == (1, 1, 0)
    call = await scene.charged(seen)
    assert outcomes(call) == [("first", "cut"), ("second", "answered")]


async def test_s13_an_answer_that_a_content_filter_ended_is_passed_on(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.filtered])
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text) == (200, "".join(does.WORDS[:3]))
    assert seen.finish_reason == "content_filter"
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=3)


async def test_the_books_show_what_no_provider_answered_and_charge_nothing(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    for provider in (scene.first, scene.second):
        provider.then = does.resets
    seen = await scene.call(stream=stream)
    assert seen.status == 503 and seen.error is not None
    await scene.charged(seen, words=0)
