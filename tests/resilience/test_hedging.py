"""A priority call whose first token is late is sent to a second pool: one answer, one charge."""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import FAR, body, edge
from tests.redis_server import RedisServer
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT, WORDS, Provider
from tests.resilience.conftest import OpenScene
from tests.resilience.policy import put_policy
from tests.resilience.scene import Scene, Seen, outcomes

SOON_MS = 60


async def hedging(open_scene: OpenScene, *, share: float = 1.0, **of_scene: Any) -> Scene:
    """A scene under a policy that sends a second attempt soon."""
    scene = await open_scene(**of_scene)
    hedge = f"{{after_ms: {SOON_MS}, share: {share}}}"
    await put_policy(scene.edge, f"{{order: [pool:first], hedge: {hedge}}}")
    return scene


async def priority(scene: Scene, *, stream: bool, **changes: Any) -> Seen:
    return await scene.call(stream=stream, service_tier="priority", **changes)


async def test_a_slow_first_token_is_overtaken_and_the_customer_pays_the_winner(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await hedging(open_scene, first=[does.silent])
    seen = await priority(scene, stream=stream)
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert scene.asked() == (1, 1, 0)
    call = await scene.charged(seen)
    assert outcomes(call) == [("first", "overtaken"), ("second", "answered")]
    assert [attempt.kind for attempt in call.attempts] == ["first", "hedge"]
    assert call.attempts[0].input > 0 and call.attempts[0].output == 0, "its prompt is our cost"
    undisturbed = await priority(scene, stream=stream)
    assert (await scene.charged(undisturbed)).amount_nanousd == call.amount_nanousd


async def test_a_first_one_that_answers_after_all_ends_the_second_at_once(
    open_scene: OpenScene, stream: bool
) -> None:
    """It answers once the second one was asked, and that one is still silent."""
    scene = await hedging(open_scene)
    scene.second.then = does.silent
    scene.first.next.append(lambda request: _once_asked(scene, request))
    seen = await priority(scene, stream=stream)
    assert (seen.status, seen.text) == (200, TEXT)
    call = await scene.charged(seen)
    assert outcomes(call) == [("first", "answered"), ("second", "overtaken")]
    assert [attempt.kind for attempt in call.attempts] == ["first", "hedge"]


def _once_asked(scene: Scene, request: fake.Request) -> fake.Script:
    """The answer, once the second provider has the call too."""
    asked = asyncio.Event()

    def tell(of_second: fake.Request) -> fake.Script:
        asked.set()
        return does.silent(of_second)

    scene.second.next.append(tell)
    whole = does.well(request)
    return fake.Script([fake.Wait(asked), *whole.acts], whole.status, whole.headers)


async def test_a_first_one_that_fails_leaves_the_second_to_answer(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await hedging(open_scene)
    asked = asyncio.Event()

    def tell(request: fake.Request) -> fake.Script:
        asked.set()
        return does.well(request)

    scene.second.next.append(tell)
    scene.first.next.append(lambda _: fake.Script([fake.Wait(asked), fake.Reset()], status=None))
    seen = await priority(scene, stream=stream)
    assert (seen.status, seen.text) == (200, TEXT)
    call = await scene.charged(seen)
    assert [attempt.kind for attempt in call.attempts] == ["first", "hedge"]
    assert [attempt.outcome for attempt in call.attempts][1] == "answered"


@pytest.mark.parametrize("bad", [does.resets, does.refuses(400), does.refuses(500)])
async def test_a_second_one_that_fails_changes_nothing_for_the_caller(
    open_scene: OpenScene, stream: bool, bad: does.Behaviour
) -> None:
    scene = await hedging(open_scene)
    asked = asyncio.Event()

    def fail(request: fake.Request) -> fake.Script:
        asked.set()
        return bad(request)

    scene.second.next.append(fail)
    whole = does.well
    scene.first.next.append(
        lambda request: fake.Script(
            [fake.Wait(asked), fake.Pause(0.05), *whole(request).acts],
            whole(request).status,
            whole(request).headers,
        )
    )
    seen = await priority(scene, stream=stream)
    assert (seen.status, seen.text) == (200, TEXT)
    call = await scene.charged(seen)
    assert [attempt.kind for attempt in call.attempts] == ["first", "hedge"]
    assert call.attempts[0].outcome == "answered"


async def test_other_tiers_and_a_spent_share_have_no_second_attempt(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await hedging(open_scene, share=0.5)
    scene.first.next.extend([does.late(0.3), does.late(0.3)])
    for tier in ("default", "priority"):
        seen = await scene.call(stream=stream, service_tier=tier)
        assert seen.text == TEXT
    assert scene.asked() == (2, 0, 0), "half a call is no call"
    scene.first.next.append(does.silent)
    assert (await priority(scene, stream=stream)).text == TEXT
    assert scene.asked() == (3, 1, 0)


async def test_a_caller_that_departs_meanwhile_leaves_nothing_open(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await hedging(open_scene, first=[does.silent])
    asked = asyncio.Event()

    def tell(request: fake.Request) -> fake.Script:
        asked.set()
        return does.silent(request)

    scene.second.next.append(tell)
    wanted = _priority_body(stream)

    async def leave(_: object) -> None:
        await asked.wait()

    posting = asyncio.ensure_future(scene.edge.post(wanted, leave=leave))
    await asked.wait()
    if not stream:
        scene.first.hang_up()
    await posting
    (call,) = (await scene.books()).values()
    assert call.amount_nanousd == 0
    assert [attempt.kind for attempt in call.attempts] == ["first", "hedge"]


def _priority_body(stream: bool) -> dict[str, Any]:
    options = {"include_usage": True} if stream else None
    return body(model=FAR, stream=stream, stream_options=options, service_tier="priority")


@pytest.mark.parametrize("own_first", [True, False])
async def test_a_worker_of_ours_and_a_server_outside_overtake_each_other(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, own_first: bool
) -> None:
    """Neither a replica nor a server outside counts a call afterwards: `settled` looks."""
    async with (
        Provider() as outer,
        edge(redis_server, redis, tmp_path, outer=f"{outer.address}/v1") as one,
    ):
        await one.publish_fleet(one.replica())
        order = "tale-reserved" if own_first else "outside"
        await put_policy(one, f"{{order: [pool:{order}], hedge: {{after_ms: 60, share: 1.0}}}}")
        if own_first:
            one.upstream.scripts.append(fake.Script([fake.Stall()], status=None))
        else:
            outer.next.append(does.silent)
        response = await one.post(body(service_tier="priority"))
        assert response.status == 200 and response.events[-1] == "[DONE]"
        (call,) = (await one.settled()).values()
        pools = ["tale-reserved", "outside"] if own_first else ["outside", "tale-reserved"]
        assert outcomes(call) == [(pools[0], "overtaken"), (pools[1], "answered")]
        assert call.pool == pools[1]
        await outer.all_hung_up(within_s=30)


WAYS = {
    "well": does.well,
    "late": does.late(0.2),
    "fails": does.refuses(500),
    "resets": does.resets,
    "silent": does.silent,
}


async def test_whatever_two_servers_do_the_charge_is_that_of_one_answer_or_nothing(
    open_scene: OpenScene, stream: bool
) -> None:
    """Every pair of ways to behave, one call after the other: answered whole and charged as one
    answer, or free; nothing is open after it."""
    scene = await hedging(open_scene, external_first_token_timeout_s=0.4)
    charges, hedged = set(), 0
    for first, second in product(WAYS, WAYS):
        scene.first.then, scene.second.then = WAYS[first], WAYS[second]
        seen = await priority(scene, stream=stream)
        is_answered = seen.status == 200 and seen.error is None
        if seen.rid not in await scene.books():
            assert seen.status == 503, "both were left alone, and nothing was taken for it"
            continue
        call = await scene.charged(seen, len(WORDS) if is_answered else 0)
        if is_answered:
            assert seen.text == TEXT, (first, second)
            charges.add(call.amount_nanousd)
        hedges = sum(each.kind == "hedge" for each in call.attempts)
        assert hedges <= 1
        hedged += hedges
        assert [each.kind for each in call.attempts][:1] in ([], ["first"])
    assert len(charges) == 1 and hedged >= 3, "whoever answered, and however many were asked"


async def test_a_call_that_wants_no_fallbacks_stays_at_its_pool(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await hedging(open_scene, first=[does.late(0.3)])
    seen = await priority(scene, stream=stream, provider={"allow_fallbacks": False})
    assert (seen.status, seen.text, scene.asked()) == (200, TEXT, (1, 0, 0))
