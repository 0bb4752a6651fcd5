"""Models to fall back on whose price the tenant's money does not cover, beside one that it does."""

from __future__ import annotations

import pytest

from routing.health.retries import RetryBudget
from tests.gateway.edge import FAR, LARGE, story
from tests.gateway.limits.test_budgets import make
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import outcomes

DEARER = {LARGE: 100}
GENERAL = f"{{fallbacks: [{LARGE}]}}"
COVERS_FAR = "0.001"
"""USD, of which 64 tokens of FAR and their prompt cost a third, and those of LARGE thirty times."""


async def test_a_dearer_model_is_left_out_where_the_budget_covers_the_one_asked_for(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(dearer=DEARER)
    await scene.policy(GENERAL)
    await make(scene.edge, limit_usd=COVERS_FAR)
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text) == (200, TEXT)
    assert (await scene.charged(seen)).model == FAR


async def test_a_dearer_model_that_was_left_out_is_never_asked(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, dearer=DEARER)
    await scene.policy(GENERAL)
    made = await make(scene.edge, limit_usd=COVERS_FAR)
    scene.first.then = does.refuses(500)
    seen = await scene.call(stream=stream)
    assert seen.status == 503
    assert scene.asked() == (2, 0, 0)
    call = await scene.charged(seen, words=0)
    assert outcomes(call) == [("first", "cut")] * 2
    assert made["id"] in {each.budget for each in call.budgets or ()}


async def test_a_call_that_not_even_its_own_model_is_covered_for_is_refused(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(dearer=DEARER)
    await scene.policy(GENERAL)
    await make(scene.edge, limit_usd="0.000001")
    seen = await scene.call(stream=stream)
    assert seen.status == 429 and seen.error and seen.error["code"] == "insufficient_quota"
    assert scene.asked() == (0, 0, 0)
    assert await scene.books() == {}


@pytest.mark.parametrize("limit_usd", ["0.2", "10"], ids=["covers one slice", "covers all"])
async def test_an_answer_that_grows_is_cut_by_the_price_of_the_model_that_gives_it(
    open_scene: OpenScene, stream: bool, limit_usd: str
) -> None:
    scene = await open_scene(dearer=DEARER)
    await scene.policy(GENERAL)
    await make(scene.edge, limit_usd=limit_usd)
    scene.edge.upstream.behaviour = lambda _: story(frames=100, tokens_a_frame=6)
    seen = await scene.call(stream=stream, model="tale", max_tokens=1000)
    assert (seen.status, seen.finish_reason) == (200, "stop")
    (call,) = (await scene.books()).values()
    assert (call.model, call.usage.output) == ("tale", 600)


async def test_an_answer_that_moves_is_no_new_call_for_the_budget_of_attempts(
    open_scene: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await open_scene(first=[does.cut_after(4)])
    calls: list[RetryBudget] = []
    monkeypatch.setattr(RetryBudget, "called", lambda budget: calls.append(budget))
    seen = await scene.call(stream=True)
    assert (seen.status, seen.text, len(calls)) == (200, TEXT, 1)
    assert outcomes(await scene.charged(seen)) == [("first", "moved"), ("second", "answered")]
