"""Models to fall back on, dearer and cheaper ones, where the tenant's money covers some of them."""

from __future__ import annotations

import json

import pytest

from billing.money import nanousd
from routing.health.retries import RetryBudget
from tests.gateway.admin.test_credits import GRANT, admin, settle
from tests.gateway.api.asgi import ask
from tests.gateway.call.test_model_limits import limit
from tests.gateway.edge import API_KEY, CHAT, FAR, LARGE, Edge, body, story
from tests.gateway.limits.test_budgets import make
from tests.laws.test_charges_within_holds import opened_calls
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import outcomes

DEARER = {LARGE: 100}
GENERAL = f"{{fallbacks: [{LARGE}]}}"
CHEAPER = {FAR: 100}
BUDGET = f"{{fallbacks: {{budget: [{LARGE}]}}}}"
COVERS_ONE = "0.001"
"""USD, of which 64 tokens and their prompt cost a third, and those of a dearer model thirty times
as much."""


@pytest.fixture(params=["budget", "prepaid credit"])
def money(request: pytest.FixtureRequest) -> str:
    """What the tenant pays from."""
    return str(request.param)


async def give(one: Edge, money: str, usd: str) -> None:
    if money == "budget":
        await make(one, limit_usd=usd)
        return
    await settle(one, settlement_mode="prepaid")
    status, told = await admin(one, "POST", "/credits", GRANT | {"amount_usd": usd})
    assert status == 201, told


async def test_a_dearer_model_is_left_out_where_the_money_covers_the_one_asked_for(
    open_scene: OpenScene, stream: bool, money: str
) -> None:
    scene = await open_scene(dearer=DEARER)
    await scene.policy(GENERAL)
    await give(scene.edge, money, COVERS_ONE)
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text) == (200, TEXT)
    assert (await scene.charged(seen)).model == FAR


async def test_a_dearer_model_that_was_left_out_is_never_asked(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, dearer=DEARER)
    await scene.policy(GENERAL)
    made = await make(scene.edge, limit_usd=COVERS_ONE)
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


async def test_a_call_that_its_model_is_too_dear_for_goes_to_the_cheaper_one(
    open_scene: OpenScene, stream: bool, money: str
) -> None:
    scene = await open_scene(dearer=CHEAPER)
    await give(scene.edge, money, COVERS_ONE)
    seen = await scene.call(stream=stream)
    assert seen.error and seen.error["code"] == "insufficient_quota"
    await scene.policy(BUDGET)
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert seen.model == LARGE
    assert scene.asked() == (0, 0, 1)
    call = await scene.charged(seen)
    assert (call.model, call.model_requested) == (LARGE, FAR)
    reasons = {
        each.model: each.reason for each in (await scene.edge.explained(seen.rid)).candidates
    }
    assert reasons[FAR] == "what is left of its budget or credit does not cover this model"


async def test_a_call_that_its_model_is_covered_for_is_never_on_the_cheaper_one(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, dearer=CHEAPER)
    await scene.policy(BUDGET)
    scene.first.then = does.refuses(500)
    assert (await scene.call(stream=stream)).status == 503
    assert scene.asked() == (2, 0, 0)


@pytest.mark.parametrize(
    "wish", [{"disable_fallbacks": True}, {"provider": {"allow_fallbacks": False}}]
)
async def test_a_call_that_disables_fallbacks_is_refused_where_the_cheaper_one_is_covered(
    open_scene: OpenScene, wish: dict[str, object]
) -> None:
    scene = await open_scene(dearer=CHEAPER)
    await scene.policy(BUDGET)
    await make(scene.edge, limit_usd=COVERS_ONE)
    seen = await scene.call(stream=True, **wish)
    assert seen.status == 429 and seen.error and seen.error["code"] == "insufficient_quota"
    assert scene.asked() == (0, 0, 0)


@pytest.mark.parametrize("others", ["[larger, tale]", "[tale, larger]"])
async def test_the_first_of_the_cheaper_models_that_is_covered_answers(
    open_scene: OpenScene, others: str
) -> None:
    scene = await open_scene(dearer={FAR: 100, LARGE: 10})
    await scene.policy(f"{{fallbacks: {{budget: {others.replace('larger', LARGE)}}}}}")
    await make(scene.edge, limit_usd=COVERS_ONE)
    seen = await scene.call(stream=True)
    assert seen.status == 200 and scene.asked() == (0, 0, 0)
    (call,) = (await scene.books()).values()
    assert (call.model, call.model_requested) == ("tale", FAR)
    assert call.amount_nanousd <= 1_000_000


@pytest.mark.parametrize("is_left_alone", [False, True], ids=["too dear", "left alone"])
async def test_what_keeps_a_call_from_the_cheaper_model_does_not_hide_that_money_lacks(
    open_scene: OpenScene, is_left_alone: bool
) -> None:
    scene = await open_scene(dearer=CHEAPER)
    await scene.policy(BUDGET)
    if is_left_alone:
        scene.larger.then = does.refuses(401)
        assert (await scene.call(stream=True, model=LARGE)).status == 503
        await scene.edge.parts.fleet.refresh()
    await make(scene.edge, limit_usd=COVERS_ONE if is_left_alone else "0.000001")
    seen = await scene.call(stream=True)
    assert seen.status == 429 and seen.error and seen.error["code"] == "insufficient_quota"
    assert scene.asked() == (0, 0, int(is_left_alone))
    assert len(await scene.books()) == int(is_left_alone)


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


async def test_a_quote_tells_the_hold_of_the_dearest_model(open_scene: OpenScene) -> None:
    scene = await open_scene(dearer=DEARER)
    await scene.policy(GENERAL)
    await limit(scene.edge, LARGE, concurrency=1)
    wanted = body(model=FAR, stream=False, stream_options=None)
    asked = json.dumps({"url": CHAT, "body": wanted}).encode()
    status, quote = await ask(scene.edge.app, "POST", "/v1/quote", asked, API_KEY)
    assert status == 200, quote
    seen = await scene.call(stream=False)
    assert nanousd(quote["hold_usd"]) == opened_calls(scene.edge)[seen.rid].hold_nanousd
    assert nanousd(quote["hold_usd"]) > nanousd(COVERS_ONE)


async def test_an_answer_that_moves_is_no_new_call_for_the_budget_of_attempts(
    open_scene: OpenScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = await open_scene(first=[does.cut_after(4)])
    calls: list[RetryBudget] = []
    monkeypatch.setattr(RetryBudget, "called", lambda budget: calls.append(budget))
    seen = await scene.call(stream=True)
    assert (seen.status, seen.text, len(calls)) == (200, TEXT, 1)
    assert outcomes(await scene.charged(seen)) == [("first", "moved"), ("second", "answered")]
