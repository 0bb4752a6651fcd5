"""Scenarios in which an answer has begun and breaks: it goes on elsewhere, or at the same server.
The caller sees the whole text once, and the books one charge."""

from __future__ import annotations

import pytest

from gateway.upstream import fake
from tests.resilience import behaviours as does
from tests.resilience.behaviours import PROMPT_TOKENS, TEXT, WORDS
from tests.resilience.conftest import OpenScene
from tests.resilience.scene import outcomes

IDLE = {"external_idle_timeout_s": 0.4}
FORTY, SIXTY = 4, 6
"""Words, of ten."""


@pytest.mark.parametrize("only_first", [False, True], ids=["two servers", "one server"])
async def test_s08_a_stream_that_is_cut_twice_is_resumed(
    open_scene: OpenScene, stream: bool, only_first: bool
) -> None:
    """At 40 % and at 60 %. A whole answer of one server is asked for once more, and no oftener."""
    scene = await open_scene(first=[does.cut_after(FORTY)], only_first=only_first)
    other = scene.first if only_first else scene.second
    if stream or not only_first:
        other.next.append(does.cut_after(SIXTY))
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done, seen.error) == (200, TEXT, True, None)
    call = await scene.charged(seen)
    assert call.usage.prompt == PROMPT_TOKENS
    *left, last = [outcome for _, outcome in outcomes(call)]
    assert last == "answered"
    assert set(left) == {"moved" if stream else "cut"} and len(left) >= 1


async def test_s09_a_stream_that_stalls_in_the_middle_is_resumed(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.stalls_after(FORTY)], **IDLE)
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert scene.asked() == (1, 1, 0)
    await scene.charged(seen)


async def test_s10_a_malformed_event_is_left_out_of_the_whole_answer(
    open_scene: OpenScene, stream: bool
) -> None:
    """A document that is malformed has nothing to be left out of: another server is asked."""
    scene = await open_scene(first=[does.malformed_after(FORTY)])
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done) == (200, TEXT, True)
    assert scene.asked() == ((1, 0, 0) if stream else (1, 1, 0))
    await scene.charged(seen)


async def test_s11_a_stream_that_finished_is_whole_without_done(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.without_done])
    seen = await scene.call(stream=stream)
    assert (seen.text, seen.is_done, seen.finish_reason) == (TEXT, True, "stop")
    assert scene.asked() == (1, 0, 0)
    await scene.charged(seen)


async def test_s11_a_stream_that_ends_without_a_finish_reason_is_resumed(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.ends_after(FORTY)])
    seen = await scene.call(stream=stream)
    assert (seen.text, seen.is_done, seen.finish_reason) == (TEXT, True, "stop")
    assert scene.asked() == (1, 1, 0)
    await scene.charged(seen)


def continues(request: fake.Request) -> fake.Script:
    """The rest of the words, where it is asked to go on with a text, as vLLM does."""
    last = request.body["messages"][-1]
    if last["role"] != "assistant":
        return does.well(request)
    came = next(n for n in range(len(WORDS)) if "".join(WORDS[:n]).rstrip() == last["content"])
    rest = [" ", *WORDS[came:]] if came else list(WORDS)
    return does.says(rest)(request)


def refuses_prefixes(request: fake.Request) -> fake.Script:
    refusal = does.refuses(400, code="unsupported_parameter")
    return (refusal if "continue_final_message" in request.body else does.well)(request)


PREFIX = {"first": {"continues": "prefix"}, "second": {"continues": "prefix"}}


async def test_s08_a_text_is_continued_where_the_second_server_can(open_scene: OpenScene) -> None:
    scene = await open_scene(first=[does.cut_after(FORTY)], pools=PREFIX)
    scene.second.then = continues
    seen = await scene.call(stream=True)
    assert (seen.text, seen.is_done) == (TEXT, True)
    assert "continue_final_message" in scene.second.requests[0].body
    await scene.charged(seen)


async def test_s14_a_server_that_refuses_to_continue_is_asked_anew(
    open_scene: OpenScene, stream: bool
) -> None:
    scene = await open_scene(first=[does.cut_after(FORTY)], pools=PREFIX)
    scene.second.then = refuses_prefixes
    seen = await scene.call(stream=stream)
    assert (seen.status, seen.text, seen.is_done, seen.error) == (200, TEXT, True, None)
    call = await scene.charged(seen)
    if stream:
        assert outcomes(call) == [
            ("first", "moved"),
            ("second", "rejected"),
            ("second", "answered"),
        ]


async def test_s14_where_nobody_goes_on_the_first_error_is_told(open_scene: OpenScene) -> None:
    """And what came is kept, and charged once."""
    scene = await open_scene(first=[does.cut_after(FORTY)], pools=PREFIX)
    for provider in (scene.first, scene.second):
        provider.then = does.refuses(400, code="unsupported_parameter")
    seen = await scene.call(stream=True)
    assert seen.error is not None and seen.error["code"] == "upstream_disconnected"
    assert (seen.text, seen.is_done) == ("".join(WORDS[:FORTY]), False)
    call = await scene.charged(seen, words=FORTY)
    assert outcomes(call)[0] == ("first", "cut")


async def test_s16_all_that_happens_to_one_call_is_on_record_and_charged_once(
    open_scene: OpenScene, stream: bool
) -> None:
    """A busy server, a stream that is cut, one that stalls, one with a malformed event."""
    scene = await open_scene(
        first=[does.refuses(503), does.stalls_after(SIXTY), does.malformed_after(SIXTY)], **IDLE
    )
    scene.second.next.extend([does.cut_after(FORTY), does.cut_after(SIXTY)])
    seen = await scene.call(stream=stream, max_tokens=2_000)
    assert (seen.status, seen.text, seen.is_done, seen.error) == (200, TEXT, True, None)
    call = await scene.charged(seen)
    attempts = outcomes(call)
    assert attempts[0] == ("first", "saturated") and attempts[-1][1] == "answered"
    assert sum(outcome in ("moved", "cut") for _, outcome in attempts) >= 2
