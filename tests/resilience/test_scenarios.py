"""Scenarios in which no answer has begun: who is asked next, and what the books say after it."""

from __future__ import annotations

from time import monotonic

import pytest

from gateway.settings import GatewaySettings
from routing.health.breaker import OF_A_PLACE
from routing.health.retries import RetryBudget
from tests.gateway.edge import FAR
from tests.resilience import behaviours as does
from tests.resilience.behaviours import TEXT
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import Scene, Seen, outcomes

SOON_S = 1.5
"""A bound of the first token that is short, and long enough for a machine with other work."""
LATE_S = 4.0


def answered(seen: Seen) -> None:
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert seen.finish_reason == "stop"


async def only_attempts(scene: Scene, seen: Seen, *expected: tuple[str, str]) -> None:
    """The whole answer, charged once, after these attempts."""
    answered(seen)
    assert outcomes(await scene.charged(seen)) == [*expected]


async def test_s01_a_cool_down_is_left_for_another_place_of_the_same_model_at_once(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.refuses(429, retry_after="2")])
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 1, 0)
    await only_attempts(scene, seen, ("first", "saturated"), ("second", "answered"))


@pytest.mark.parametrize("status", [429, 503])
async def test_s01_where_there_is_no_other_place_retry_after_is_waited_out(
    open_scene: OpenScene, stream: bool, status: int
) -> None:
    scene = await open_scene(only_first=True, first=[does.refuses(status, retry_after="2")])
    began_s = monotonic()
    seen = await scene.call(stream=stream)
    assert monotonic() - began_s >= 2.0
    assert scene.asked() == (2, 0, 0)
    await only_attempts(scene, seen, ("first", "saturated"), ("first", "answered"))


async def test_s01_a_retry_after_beyond_the_bound_is_passed_on(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, first=[does.refuses(429, retry_after="30")])
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.response.headers["retry-after"]) == (503, "30")
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=0)


async def test_s01_a_retry_after_beyond_the_deadline_is_not_waited_out(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, first=[does.refuses(429, retry_after="4")])
    seen = await scene.call(stream=stream, headers={"x-sluice-deadline-ms": "3000"})
    assert (seen.status, seen.response.headers["retry-after"]) == (503, "4")
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=0)


async def test_s02_a_place_that_refuses_for_ever_is_left_for_another(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    scene.first.then = does.refuses(429, retry_after="1")
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 1, 0)
    await only_attempts(scene, seen, ("first", "saturated"), ("second", "answered"))


async def test_s02_where_all_refuse_for_ever_the_caller_is_told_when_to_come_again(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    scene.first.then = does.refuses(429, retry_after="1")
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.response.headers["retry-after"]) == (503, "1")
    assert scene.asked() == (2, 0, 0), "its word is taken once"
    await scene.charged(seen, words=0)


async def test_s03_the_only_server_is_asked_once_more_after_a_500(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, first=[does.refuses(500)])
    seen = await scene.call(stream=stream)
    assert scene.asked() == (2, 0, 0)
    await only_attempts(scene, seen, ("first", "cut"), ("first", "answered"))


async def test_s03_a_server_that_fails_twice_is_not_asked_a_third_time(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    scene.first.then = does.refuses(500)
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.error is not None) == (503, True)
    assert scene.asked() == (2, 0, 0)
    await scene.charged(seen, words=0)


async def test_s04_a_place_that_is_down_for_ever_is_left_for_another_and_its_breaker_opens(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    scene.edge.watch.stop()
    scene.first.then = does.refuses(503)
    for _ in range(OF_A_PLACE.in_a_row + 3):
        answered(await scene.call(stream=stream))
    assert scene.asked()[0] == OF_A_PLACE.in_a_row
    seen = await scene.call(stream=stream)
    await only_attempts(scene, seen, ("second", "answered"))
    health = await scene.breaker("first")
    assert (health["state"], health["reason"]) == ("open", "server_error")
    assert health["next_probe_at"] is not None


async def test_s04_where_there_is_no_other_place_nobody_asks_until_the_next_probe(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    scene.edge.watch.stop()
    scene.first.then = does.refuses(503)
    while scene.asked()[0] < OF_A_PLACE.in_a_row:
        assert (await scene.call(stream=stream)).status == 503
    asked = scene.asked()[0]
    seen = await scene.call(stream=stream)
    assert (seen.status, scene.asked()[0]) == (503, asked)
    assert 1 <= int(seen.response.headers["retry-after"]) <= OF_A_PLACE.quick.most_s
    scene.first.then = does.well
    await scene.passes(OF_A_PLACE.quick.most_s)
    answered(await scene.call(stream=stream))
    await scene.books()


async def test_s05_a_reset_before_any_byte_goes_to_another_place(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.resets])
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 1, 0)
    await only_attempts(scene, seen, ("first", "cut"), ("second", "answered"))


async def test_s06_a_silent_server_is_left_for_another_and_asked_once(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(external_first_token_timeout_s=SOON_S)
    scene.first.then = does.silent
    seen = await scene.call(stream=stream)
    assert scene.asked() == (1, 1, 0)
    await only_attempts(scene, seen, ("first", "cut"), ("second", "answered"))


async def test_s06_a_silent_server_that_is_alone_is_asked_once(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True, external_first_token_timeout_s=SOON_S)
    scene.first.then = does.silent
    seen = await scene.call(stream=stream)
    assert seen.status == 503
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=0)


async def test_s07_a_first_token_that_is_late_comes_from_elsewhere(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.late(LATE_S)], external_first_token_timeout_s=SOON_S)
    seen = await scene.call(stream=stream)
    await only_attempts(scene, seen, ("first", "cut"), ("second", "answered"))


async def test_s07_a_pool_bounds_the_time_of_its_own_server(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(
        first=[does.late(LATE_S)], pools={"first": {"first_token_timeout_s": SOON_S}}
    )
    seen = await scene.call(stream=stream)
    await only_attempts(scene, seen, ("first", "cut"), ("second", "answered"))


def test_s07_the_bound_of_a_first_token_leaves_time_to_answer_within_fifteen_seconds() -> None:
    own = GatewaySettings()
    assert own.external_first_token_timeout_s == own.external_idle_timeout_s == 10.0


async def test_s12_a_context_that_is_too_long_is_passed_on_and_never_retried(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.refuses(400, code=does.CONTEXT_LENGTH)])
    seen = await scene.call(stream=stream)
    assert seen.status == 400 and seen.error is not None
    assert seen.error["code"] == does.CONTEXT_LENGTH
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=0)


async def test_s13_an_answer_that_a_content_filter_ended_is_passed_on(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.filtered])
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text) == (200, "".join(does.WORDS[:3]))
    assert seen.finish_reason == "content_filter"
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=3)


@pytest.mark.parametrize("code", ["content_filter", "content_policy_violation"])
async def test_s13_a_refusal_by_content_policy_is_passed_on_with_its_reason(
    open_scene: OpenScene, stream: bool, code: str
) -> None:
    scene = await open_scene(first=[does.refuses(400, code=code)])
    seen = await scene.call(stream=stream)
    assert seen.status == 400 and seen.error is not None
    assert (seen.error["code"], seen.error["message"]) == (code, "no: 400")
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen, words=0)


@pytest.mark.parametrize("status", [401, 402, 403])
async def test_a_provider_that_refuses_us_is_ours_to_mend_and_never_the_tenants_error(
    open_scene: OpenScene, stream: bool, status: int
) -> None:
    scene = await open_scene()
    scene.edge.watch.stop()
    scene.first.then = does.refuses(status, code="no_credit")
    for _ in range(3):
        answered(await scene.call(stream=stream))
    assert scene.asked()[0] == 1, "its breaker opens at once"
    health = await scene.breaker("first")
    assert (health["state"], health["reason"]) == ("open", "refused_us")


async def test_where_every_provider_refuses_us_the_tenant_reads_our_own_words(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(only_first=True)
    scene.edge.watch.stop()
    scene.first.then = does.refuses(402, code="no_credit")
    for _ in range(2):
        seen = await scene.call(stream=stream)
        assert (seen.status, seen.error is not None) == (503, True)
        assert seen.error and seen.error["code"] == "provider_misconfigured"
        assert "402" not in seen.response.body.decode()
        assert "refused_us" not in seen.response.body.decode()
        await scene.passes(0.0)
    assert scene.asked()[0] == 1
    await scene.books()


async def test_s15_a_provider_that_flaps_costs_no_call_and_is_probed_by_few(
    open_scene: OpenScene, stream: bool
) -> None:
    """A minute of the gateway's clock, half of which the provider fails; then it works, and gets
    its calls back little by little. It is asked first however slow it is known to be, and nobody is
    asked beside it: both would hang on what else the machine does."""
    scene = await open_scene()
    await scene.policy("{order: [pool:first], hedge: {share: 0}}")
    watch = scene.edge.watch
    watch.stop()
    assert watch.stands_at_s is not None
    began_s = watch.stands_at_s
    for bad in (does.refuses(500), does.resets):
        scene.first.then = does.flaps(lambda: watch() - began_s, 10.0, bad)
        for _ in range(60):
            await scene.passes(0.5)
            seen = await scene.call(stream=stream)
            answered(seen)
    failures = sum(each.outcome != "answered" for each in await scene.attempts())
    assert failures <= 6 * (OF_A_PLACE.in_a_row + 5), "each time a row, and a probe now and then"
    scene.first.then = does.well
    before = scene.first.asked
    for _ in range(90):
        await scene.passes(1.0)
        answered(await scene.call(stream=False))
    assert scene.first.asked - before > 50, "it has its calls again"
    await scene.books()


async def test_retries_of_all_calls_together_are_bounded(open_scene: OpenScene) -> None:
    scene = await open_scene(only_first=True)
    scene.first.then = does.refuses(500)
    dispatcher = scene.edge.parts.pipeline._dispatcher
    dispatcher._budget = RetryBudget(0.0, per_s=0.0, burst=1.2)
    first, second = [await scene.call(stream=False) for _ in range(2)]
    assert (first.status, second.status) == (503, 503)
    assert scene.asked() == (3, 0, 0), "two calls and one retry"
    assert scene.edge.parts.observed.tally.refused_retries == {(FAR, "first"): 1}
    await scene.books()


async def test_the_books_show_what_no_provider_answered_and_charge_nothing(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene()
    for provider in (scene.first, scene.second):
        provider.then = does.resets
    seen = await scene.call(stream=stream)
    assert seen.status == 503 and seen.error is not None
    assert scene.asked() == (2, 2, 0), "each is asked once more"
    await scene.charged(seen, words=0)
