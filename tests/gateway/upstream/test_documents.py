"""Short answers that nobody streams are asked for, and read, in one piece."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.limits.gcra import UNITS_MAX
from billing.types import Usage
from gateway.call.frame import Frame
from gateway.call.request import outside_stream, outside_whole
from gateway.upstream import fake
from gateway.upstream.answer import Cut
from gateway.upstream.chunks import read_answer
from gateway.upstream.openai import OpenAIUpstream, Target, Whole
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.upstream.conftest import frames_of, one_adapter

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
USED = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 2}}


def document(*choices: dict[str, Any], usage: object = USED) -> bytes:
    return json.dumps({"id": "x", "choices": choices, "usage": usage}).encode()


def chose(text: str | None = "Hello", index: int = 0, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text} | message
    return {"index": index, "message": said, "finish_reason": "stop"}


def read(body: bytes) -> Frame:
    return read_answer(body, prompt_tokens=20)


def as_json(body: bytes) -> fake.Script:
    return fake.Script([fake.Send(body)], headers=(("content-type", "application/json"),))


async def talk(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, choices: int = 1
) -> list[Frame]:
    target = Target(f"{server.address}/v1/x", {}, b"{}", choices=choices, whole=Whole(20))
    async with asyncio.timeout(30), await upstream.open(target) as answer:
        return await frames_of(answer)


async def test_document_is_one_frame_with_its_usage(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    server.scripts.append(as_json(document(chose("a", 0), chose("b", 1))))
    [frame] = await talk(upstream, server, choices=2)
    assert [choice.content for choice in frame.choices] == ["a", "b"]
    assert frame.usage == Usage(input=7, cached_input=2, output=4)


async def test_server_that_streams_all_the_same_is_understood(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    parts = (fake.plain_frame("Hi"), fake.plain_frame(finish="stop"), fake.plain_usage(9, 1))
    server.scripts.append(fake.stream(*parts, fake.DONE))
    assert "".join(c.content for f in await talk(upstream, server) for c in f.choices) == "Hi"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"[]",
        b"[" * 10**5,
        document(),
        document(chose() | {"finish_reason": None}),
        document(chose(index=1)),
        document(chose(index=-1)),
        document({"index": 0, "message": {"content": 5}, "finish_reason": "stop"}),
        document(chose(None, tool_calls=[{"function": 1}])),
        json.dumps({"error": {"message": "engine died"}}).encode(),
    ],
    ids=lambda body: body[:40],
)
async def test_whatever_is_not_a_finished_answer_is_cut(body: bytes) -> None:
    async with fake.FakeUpstream(lambda _: as_json(body)) as server, one_adapter() as upstream:
        with pytest.raises(Cut):
            await talk(upstream, server)


@settings(max_examples=60)
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(json.dumps))
def test_any_payload_is_a_frame_or_cut(payload: bytes | str) -> None:
    data = payload.encode("utf-8", "surrogatepass") if isinstance(payload, str) else payload
    with contextlib.suppress(Cut):
        assert isinstance(read(data), Frame)


def test_calls_of_tools_come_out_as_they_went_in() -> None:
    frame = read(document(chose(None, tool_calls=[CALL, CALL | {"id": "c2"}])))
    gathered = WholeChoice(0)
    gathered.add(frame.choices[0])
    assert gathered.tool_calls == (CALL, CALL | {"id": "c2"})


def test_plain_completion_and_its_scores_are_read() -> None:
    scores = {"tokens": ["Hi"], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": [0]}
    said = {"index": 0, "text": "Hi", "finish_reason": "length", "logprobs": scores}
    [choice] = read(document(said)).choices
    assert (choice.content, choice.finish_reason) == ("Hi", "length")
    assert choice.logprobs is not None and choice.logprobs.tokens == ["Hi"]


@given(st.integers(0, 2**40))
def test_what_a_document_reports_is_read_whole_or_not_at_all(said: int) -> None:
    """What is charged of it is bounded where it is charged: our cost is all of it. Beyond reason
    the text is counted."""
    usage = read(document(chose(), usage=USED | {"completion_tokens": said})).usage
    assert usage is not None
    assert usage.output == said or said > UNITS_MAX // 3
    assert usage.output <= UNITS_MAX // 3


def test_answer_without_a_count_is_counted_by_its_text() -> None:
    assert read(document(chose("x" * 41), usage=None)).usage == Usage(input=20, output=11)
    assert read(document(chose("x" * 4100), usage=None)).usage == Usage(input=20, output=1025)


def test_whole_body_asks_for_no_stream() -> None:
    assert outside_whole(outside_stream({"n": 1})) == {"n": 1}
