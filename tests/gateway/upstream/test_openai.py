"""The adapter against a server that does everything wrong that a server can."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.limits.packing import token_units
from billing.types import Usage
from gateway.call.frame import Frame
from gateway.upstream import fake
from gateway.upstream.answer import Cut, Rejected, Saturated, Unreachable, UpstreamError
from gateway.upstream.chunks import read_chunk
from gateway.upstream.openai import OpenAIUpstream, Patience, Target
from tests.gateway.upstream.conftest import frames_of, one_adapter

STORY = (
    fake.own_frame("Once", 1, prompt=12, cached=4)
    + b": keep-alive\r\n\r\n"
    + fake.own_frame(" upon é \U0001f600", 5, prompt=12, cached=4)
    + fake.own_frame("", 6, prompt=12, cached=4, finish="stop")
    + fake.DONE
)


async def talk(upstream: OpenAIUpstream, server: fake.FakeUpstream) -> list[Frame]:
    url = f"{server.address}/v1/chat/completions"
    target = Target(url, {}, b'{"stream":true}', patience=Patience(0.5, 0.5))
    async with asyncio.timeout(30):
        async with await upstream.open(target) as answer:
            return await frames_of(answer)


def plain_target(server: fake.FakeUpstream) -> Target:
    return Target(f"{server.address}/v1/chat/completions", {}, b"{}")


def text_of(frames: list[Frame]) -> str:
    return "".join(choice.content for frame in frames for choice in frame.choices)


# --- whole answers ------------------------------------------------------------------------------


async def test_own_worker_frames_carry_cumulative_usage_and_position(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.stream(STORY))
    frames = await talk(upstream, server)
    assert text_of(frames) == "Once upon é \U0001f600"
    assert [frame.position for frame in frames] == [1, 5, 6]
    assert frames[-1].usage == Usage(input=8, cached_input=4, output=6)
    assert frames[-1].choices[0].finish_reason == "stop"


@settings(max_examples=25)
@given(st.lists(st.integers(1, len(STORY) - 1), max_size=30))
def test_any_cut_of_the_bytes_gives_the_same_frames(places: list[int]) -> None:
    async def both() -> tuple[list[Frame], list[Frame]]:
        split = fake.Script(fake.cut_into(STORY, places))
        async with fake.FakeUpstream(lambda _: split) as server, one_adapter() as upstream:
            server.scripts.append(fake.stream(STORY))
            return await talk(upstream, server), await talk(upstream, server)

    whole, cut = asyncio.run(both())
    assert cut == whole


async def test_external_server_says_its_usage_in_the_last_chunk(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    parts = (fake.plain_frame("Hi"), fake.plain_frame(finish="stop"), fake.plain_usage(9, 2, 3))
    server.scripts.append(fake.stream(*parts, fake.DONE))
    frames = await talk(upstream, server)
    assert frames[-1].usage == Usage(input=6, cached_input=3, output=2)


async def test_end_without_done_after_a_finish_reason_is_complete(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.stream(fake.plain_frame("Hi"), fake.plain_frame(finish="stop")))
    assert text_of(await talk(upstream, server)) == "Hi"


# --- streams that are cut -------------------------------------------------------------------------

FIRST = fake.own_frame("Once", 1)
CUTS = {
    "reset mid-stream": fake.stream(FIRST, then=[fake.Pause(0.05), fake.Reset()]),
    "closed mid-stream": fake.stream(FIRST, then=[fake.Close()]),
    "clean end without a finish": fake.stream(FIRST),
    "done without a finish": fake.stream(FIRST, fake.DONE),
    "done at once": fake.stream(fake.DONE),
    "nothing at all": fake.stream(),
    "silence": fake.stream(FIRST, then=[fake.Stall()]),
    "no JSON": fake.stream(FIRST, b"data: {nonsense\n\n"),
    "half an event, then the end": fake.stream(FIRST, FIRST[: len(FIRST) // 2]),
    "invalid UTF-8": fake.stream(b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n'),
    "a chunk that is a list": fake.stream(fake.event([])),
    "choices of another shape": fake.stream(fake.event({"choices": 1})),
    "content that is no text": fake.stream(
        fake.event({"choices": [{"delta": {"content": 5}, "finish_reason": None}]})
    ),
    "negative usage": fake.stream(fake.own_frame("x", -5, finish="stop"), fake.DONE),
    "absurd usage": fake.stream(fake.own_frame("x", 2**62, finish="stop"), fake.DONE),
    "deep nesting": fake.stream(b'data: {"choices":[{"delta":{"x":' + b"[" * 10**5 + b"\n\n"),
    "an error event": fake.stream(FIRST, fake.event({"error": {"message": "engine died"}})),
    "an oversized event": fake.stream(b"data: " + b"x" * (5 * 1024 * 1024)),
    "an oversized event in lines": fake.stream(*[b"data: " + b"x" * 2**20 + b"\n"] * 6, b"\n"),
}


@pytest.mark.parametrize("script", CUTS.values(), ids=CUTS.keys())
async def test_whatever_is_not_a_finished_stream_is_cut(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, script: fake.Script
) -> None:
    server.scripts.append(script)
    with pytest.raises(Cut):
        await talk(upstream, server)


async def test_frames_that_came_together_with_what_cuts_their_stream_are_given_first(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    """They are charged and passed on whether TCP kept them apart from it or not."""
    server.scripts.append(fake.stream(FIRST + FIRST + b"data: {nonsense\n\n"))
    async with await upstream.open(plain_target(server)) as answer:
        assert text_of(await answer.more()) == "OnceOnce"
        for _ in range(2):
            with pytest.raises(Cut):
                await answer.more()
    assert not answer.is_over


async def test_what_comes_behind_the_end_is_passed_over(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.stream(STORY + FIRST + b"data: {nonsense\n\n"))
    async with await upstream.open(plain_target(server)) as answer:
        assert len(await answer.more()) == 3
        assert answer.is_over
        assert await answer.more() == []


async def test_reset_before_a_single_byte_is_cut(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.Script([fake.Reset()], status=None))
    with pytest.raises(Cut):
        await talk(upstream, server)


@settings(max_examples=60)
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_payload_is_a_frame_or_cut(payload: bytes | str) -> None:
    data = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    with suppress(Cut):
        assert isinstance(read_chunk(data), Frame)


@given(st.integers(0, 2**33), st.integers(0, 2**33), st.integers(0, 2**33))
def test_usage_that_is_believed_can_be_settled(prompt: int, cached: int, output: int) -> None:
    said = fake.own_frame("x", output, prompt=prompt + cached, cached=cached)
    for event in (said, fake.plain_usage(prompt, output, cached)):
        with suppress(Cut):
            usage = read_chunk(event.removeprefix(b"data: ").strip()).usage
            is_left_out = usage is None and event is not said
            assert is_left_out or (usage and token_units(usage.total) == usage.total)


# --- refusals before the stream -------------------------------------------------------------------


async def refused(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, script: fake.Script
) -> UpstreamError:
    server.scripts.append(script)
    with pytest.raises(UpstreamError) as caught:
        await talk(upstream, server)
    return caught.value


async def test_nobody_listening_is_unreachable(upstream: OpenAIUpstream) -> None:
    async with fake.FakeUpstream(lambda _: fake.stream()) as gone:
        pass_on = Target(f"{gone.address}/v1/chat/completions", {}, b"{}")
    with pytest.raises(Unreachable):
        await upstream.open(pass_on)


async def test_draining_worker_is_unreachable_even_if_its_words_come_in_pieces(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    body = b'{"error":{"message":"on its way down","code":"worker_draining"}}'
    pieces: list[fake.Act] = [fake.Send(body[:20]), fake.Pause(0.05), fake.Send(body[20:])]
    json_type = (("content-type", "application/json"),)
    assert isinstance(
        await refused(upstream, server, fake.Script(pieces, 503, json_type)), Unreachable
    )


@pytest.mark.parametrize("status", [429, 503])
async def test_overloaded_server_is_saturated_with_its_own_retry_after(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, status: int
) -> None:
    script = fake.refusal(status, {"message": "busy"}, (("retry-after", "7"),))
    found = await refused(upstream, server, script)
    assert isinstance(found, Saturated) and found.retry_after_s == 7.0


async def test_overloaded_server_may_name_a_date_by_its_own_clock(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    dates = (
        ("retry-after", "Sun, 06 Nov 1994 08:49:44 GMT"),
        ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
    )
    found = await refused(upstream, server, fake.refusal(429, {"message": "busy"}, dates))
    assert isinstance(found, Saturated) and found.retry_after_s == 7.0


async def test_worker_that_still_has_the_former_try_is_asked_again(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    """A call that was started over may meet itself: that is not the caller's mistake."""
    error = {"message": "req_1 is already being generated", "code": "request_in_flight"}
    assert isinstance(await refused(upstream, server, fake.refusal(409, error)), Saturated)


async def test_senseless_retry_after_is_ignored(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    for senseless in ("soon", "nan", "inf", "-3", "1e999"):
        script = fake.refusal(429, {"message": "busy"}, (("retry-after", senseless),))
        found = await refused(upstream, server, script)
        assert isinstance(found, Saturated) and found.retry_after_s is None


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_the_callers_mistake_is_passed_on_in_the_upstreams_words(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, status: int
) -> None:
    error = {"message": "too hot", "code": "invalid_value", "param": "temperature"}
    found = await refused(upstream, server, fake.refusal(status, error))
    assert isinstance(found, Rejected)
    rejection = found.rejection
    assert (rejection.message, rejection.code, rejection.param) == (
        "too hot",
        "invalid_value",
        "temperature",
    )


async def test_code_that_is_a_number_never_reaches_our_records(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    """Some servers say `"code": 400`; a settled call's `error_code` is a string or nothing."""
    error = {"message": "bad", "code": 400, "param": ["x"]}
    found = await refused(upstream, server, fake.refusal(400, error))
    assert isinstance(found, Rejected)
    assert (found.rejection.code, found.rejection.param) == (None, None)


@pytest.mark.parametrize("status", [301, 401, 403, 404, 408, 500, 502, 504])
async def test_of_a_worker_what_is_neither_load_nor_the_callers_fault_is_cut(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, status: int
) -> None:
    script = fake.refusal(status, {"message": "no"}, (("location", "http://127.0.0.1:9/"),))
    assert isinstance(await refused(upstream, server, script), Cut)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"error":"text"}', b"[" * 10**5, b"\xff"],
    ids=lambda body: body[:9],
)
async def test_error_body_of_any_kind_is_survived(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, body: bytes
) -> None:
    assert isinstance(await refused(upstream, server, fake.refusal(400, body)), Rejected)


async def test_error_body_that_never_ends_is_not_waited_for(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    script = fake.Script([fake.Send(b'{"error":'), fake.Stall()], 503)
    assert isinstance(await refused(upstream, server, script), Saturated)


async def test_leaving_the_block_hangs_up_so_that_the_worker_stops(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(fake.stream(FIRST, then=[fake.Stall()]))
    async with await upstream.open(plain_target(server)) as answer:
        assert len(await answer.more()) == 1
    await server.all_hung_up(within_s=30)
