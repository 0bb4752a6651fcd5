"""Models to fall back on that have limits of their own, taken as a call goes there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.holds import Holds
from billing.limits.types import LimitsUnavailable
from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.call.test_model_limits import limit
from tests.gateway.edge import FAR, LARGE, SHARD
from tests.gateway.outages import declare
from tests.laws.test_charges_within_holds import opened_calls
from tests.redis_server import RedisServer
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import Scene, Seen, outcomes, scene

GENERAL = f"{{fallbacks: [{LARGE}]}}"
TWO = f"{{fallbacks: [{LARGE}, tale]}}"
OTHER = {LARGE: "tale", "tale": LARGE}
SLOTS = keys.meter_key(SHARD, f"key:{KEY_ID}/model:{LARGE}#concurrency")
BOUNDED_BY_S = 60.0


async def answered(scene: Scene, seen: Seen, model: str) -> None:
    assert seen.status == 200, seen.error
    assert (await scene.books())[seen.rid].model == model


async def test_a_model_with_limits_answers_in_place_of_another_and_counts_the_call(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(GENERAL)
    await limit(scene.edge, LARGE, requests_per_minute=1)
    scene.first.then = does.refuses(500)
    seen = await scene.call(stream=stream)
    assert seen.text == TEXT
    await answered(scene, seen, LARGE)
    seen = await scene.call(stream=stream)
    assert seen.status == 503, "its own failure is told, not the limit of a model it did not name"
    assert scene.asked() == (4, 0, 1)
    assert outcomes(await scene.charged(seen, words=0)) == [("first", "cut")] * 2
    assert (await scene.call(stream=stream, model=LARGE)).status == 429


@pytest.mark.parametrize("limited", OTHER)
@pytest.mark.parametrize("limits", [{"output_tokens_per_minute": 10}, {"concurrency": 0}])
async def test_a_call_goes_past_a_model_whose_limit_is_used_up(
    open_scene: OpenScene, limited: str, limits: dict[str, int]
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(f"{{fallbacks: [{limited}, {OTHER[limited]}]}}")
    await limit(scene.edge, limited, **limits)
    scene.first.then = does.refuses(500)
    await answered(scene, await scene.call(stream=True), OTHER[limited])
    assert scene.asked() == (2, 0, int(limited == "tale"))


@pytest.mark.parametrize("route", [GENERAL, TWO], ids=["no other", "another"])
async def test_limits_of_a_model_that_is_chosen_for_another_are_not_what_a_caller_is_told(
    open_scene: OpenScene, route: str
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(route)
    await limit(scene.edge, LARGE, requests_per_minute=1)
    scene.first.then = does.refuses(401)
    await answered(scene, await scene.call(stream=True), LARGE)
    await scene.edge.parts.fleet.refresh()
    seen = await scene.call(stream=True)
    assert scene.asked() == (1, 0, 1), "the first one is left alone"
    if route == TWO:
        await answered(scene, seen, "tale")
    else:
        assert seen.status == 503


async def test_a_slot_of_a_model_is_free_again_once_the_call_that_went_there_ends(
    open_scene: OpenScene,
) -> None:
    scene = await open_scene(only_first=True)
    await scene.policy(GENERAL)
    await limit(scene.edge, LARGE, concurrency=1)
    scene.first.then = does.refuses(500)
    told = asyncio.Event()
    scene.larger.next.append(waits_for(told))
    async with asyncio.timeout(BOUNDED_BY_S), asyncio.TaskGroup() as group:
        first = group.create_task(scene.call(stream=True))
        while not scene.larger.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await scene.call(stream=True)).status == 503
        told.set()
    await answered(scene, first.result(), LARGE)
    await answered(scene, await scene.call(stream=True), LARGE)
    assert not await scene.edge.redis.exists(SLOTS)


@pytest.mark.parametrize("mode", ["local", "deny"])
async def test_limits_taken_while_redis_is_away_are_told_it_afterwards(
    open_scene: OpenScene, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    scene = await open_scene(only_first=True, renew_s=0.1)
    await scene.policy(GENERAL)
    await limit(scene.edge, LARGE, concurrency=4)
    await declare(scene.edge, mode, 10**9 if mode == "local" else None)
    scene.first.then = does.refuses(500)
    told = asyncio.Event()
    scene.larger.next.append(waits_for(told))
    take, refused = Holds.extend, [LimitsUnavailable("away")]

    async def away(*args: object, **kwargs: object) -> object:
        if refused:
            raise refused.pop()
        return await take(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Holds, "extend", away)
    async with asyncio.timeout(BOUNDED_BY_S), asyncio.TaskGroup() as group:
        calling = group.create_task(scene.call(stream=True))
        while mode == "local" and not await scene.edge.redis.exists(SLOTS):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        told.set()
    seen = calling.result()
    if mode == "local":
        await answered(scene, seen, LARGE)
    else:
        assert (seen.status, scene.larger.asked) == (503, 0)
        await scene.books()
    assert not await scene.edge.redis.exists(SLOTS)
    assert not scene.edge.parts.accounts.slots.open_in(f"key:{KEY_ID}/model:{LARGE}")


def waits_for(told: asyncio.Event) -> does.Behaviour:
    def behave(request: fake.Request) -> fake.Script:
        whole = does.well(request)
        return fake.Script([fake.Wait(told), *whole.acts], headers=whole.headers)

    return behave


# --- laws -----------------------------------------------------------------------------------------

FAULTS = {
    "well": does.well,
    "500": does.refuses(500),
    "busy": does.refuses(429, retry_after="9"),
    "reset": does.resets,
    "cut": does.cut_after(4),
    "too long": does.refuses(400, code=does.CONTEXT_LENGTH),
}
ROUTE = f"{{fallbacks: {{general: [{LARGE}, tale], context_window: [{LARGE}]}}}}"
faults = st.lists(st.sampled_from(sorted(FAULTS)), max_size=4)


def test_no_sequence_of_failures_and_limits_loses_a_permit_or_a_hold_or_charges_more_than_is_held(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """Three calls at once, of which one alone may be at the model LARGE."""
    runner = asyncio.Runner()
    redis = Redis.from_url(redis_server.url)
    opening = scene(redis_server, redis, tmp_path, only_first=True, dearer={LARGE: 3})

    async def start() -> Scene:
        await redis.flushall()
        opened = await opening.__aenter__()
        await opened.policy(ROUTE)
        await limit(opened.edge, LARGE, concurrency=1)
        return opened

    with runner:
        one = runner.run(start())

        @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
        @given(first=faults, larger=faults, stream=st.booleans())
        def law(first: list[str], larger: list[str], stream: bool) -> None:
            runner.run(_one_example(one, first, larger, stream))

        law()
        runner.run(opening.__aexit__(None, None, None))
        runner.run(redis.aclose())


async def _one_example(one: Scene, first: list[str], larger: list[str], stream: bool) -> None:
    await one.edge.heals()
    for provider, names in ((one.first, first), (one.larger, larger)):
        provider.next.clear()
        provider.next.extend(FAULTS[name] for name in names)
    seen = await asyncio.gather(*(one.call(stream=stream) for _ in range(3)))
    calls, opened = await one.books(), opened_calls(one.edge)
    assert not await one.edge.redis.exists(SLOTS)
    assert not one.edge.parts.accounts.slots.open_in(f"key:{KEY_ID}/model:{LARGE}")
    for each in seen:
        assert each.status in (200, 400, 503), each.error
        call = calls[each.rid]
        assert call.model_requested == FAR
        assert call.amount_nanousd <= opened[call.rid].hold_nanousd
