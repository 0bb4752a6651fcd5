"""The table of what a body may say: every field, good and bad, with the exact refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from billing.types import Usage
from gateway.errors import ApiError
from gateway.wire.chat import (
    AnswerHead,
    ChatRequest,
    ChunkShaper,
    parse_chat,
    usage_shape,
    whole_answer,
)
from gateway.wire.checks import CHECKS

USER = {"role": "user", "content": "Hi"}
GOOD = {"model": "tale", "messages": [USER]}


def parse(**changes: Any) -> ChatRequest:
    return parse_chat(json.dumps(GOOD | changes).encode())


def refused(body: bytes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse_chat(body)
    assert caught.value.status == 400
    return caught.value


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"model": 5}, "model", "invalid_type"),
    ({"messages": None}, "messages", "missing_required_parameter"),
    ({"messages": []}, "messages", "empty_array"),
    ({"messages": "Hi"}, "messages", "invalid_type"),
    ({"messages": ["Hi"]}, "messages[0]", "invalid_type"),
    ({"messages": [USER, {"role": "tool", "content": "x"}]}, "messages[1].role", "invalid_value"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_type"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].type",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
        "messages[0].content[0].text",
        "invalid_type",
    ),
    (
        {"messages": [USER | {"tool_calls": [1]}]},
        "messages[0].tool_calls",
        "unsupported_parameter",
    ),
    ({"stream": "yes"}, "stream", "invalid_type"),
    ({"stream_options": True}, "stream_options", "invalid_type"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_type"),
    ({"stream_options": {"other": True}}, "stream_options.other", None),
    ({"stream_options": {"include_usage": True}}, "stream_options", None),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
    ({"max_tokens": True}, "max_tokens", "invalid_type"),
    ({"max_completion_tokens": "many"}, "max_completion_tokens", "invalid_type"),
    ({"temperature": 2.1}, "temperature", "invalid_value"),
    ({"temperature": "hot"}, "temperature", "invalid_type"),
    ({"top_p": -0.1}, "top_p", "invalid_value"),
    ({"seed": 2**63}, "seed", "invalid_value"),
    ({"seed": 0.5}, "seed", "invalid_type"),
    ({"stop": 5}, "stop", "invalid_type"),
    ({"stop": [""]}, "stop", "invalid_type"),
    ({"stop": list("abcde")}, "stop", "invalid_value"),
    ({"service_tier": "gold"}, "service_tier", "invalid_value"),
    ({"user": 5}, "user", "invalid_type"),
    ({"metadata": {"a": 1}}, "metadata", "invalid_type"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "invalid_value"),
    ({"n": 2}, "n", "unsupported_parameter"),
    ({"logprobs": True}, "logprobs", "unsupported_parameter"),
    ({"tools": [{"type": "function"}]}, "tools", "unsupported_parameter"),
    ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
    ({"presence_penalty": 0.5}, "presence_penalty", "unsupported_parameter"),
    ({"reasoning_effort": "high"}, "reasoning_effort", "unsupported_parameter"),
    ({"nonsense": 1}, "nonsense", None),
]


@pytest.mark.parametrize(("changes", "param", "code"), WRONG, ids=lambda value: str(value)[:50])
def test_wrong_field_is_named_with_its_code(
    changes: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(json.dumps(GOOD | changes).encode())
    assert (error.param, error.code) == (param, code)


NEUTRAL: dict[str, Any] = {
    "n": 1,
    "store": False,
    "logprobs": False,
    "presence_penalty": 0.0,
    "frequency_penalty": 0,
    "logit_bias": {},
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
    "user": "u",
    "metadata": {"a": "b"},
    "stop": None,
}


def test_fields_at_their_neutral_value_pass_and_do_not_reach_the_engine() -> None:
    assert parse(**NEUTRAL).sampling == {}


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_null_is_as_good_as_left_out_but_for_what_is_required(name: str) -> None:
    if name not in GOOD:
        assert parse(**{name: None}) == parse()


def test_sampling_goes_on_as_it_is() -> None:
    sampling = {"temperature": 0, "top_p": 0.5, "stop": ["a", "b"], "seed": -(2**63)}
    assert parse(**sampling).sampling == sampling


def test_newer_ceiling_wins_over_the_older() -> None:
    assert parse(max_tokens=5, max_completion_tokens=7).output_tokens_max == 7


def test_parts_are_joined_and_developer_speaks_as_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = parse(messages=[{"role": "developer", "content": parts}])
    assert request.messages == ({"role": "system", "content": "ab"},)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff\xfe",
        b"[" * 10**5,
        b'{"model":"\xff"}',
        b'{"model":"tale","messages":[{"role":"user","content":"\\ud800"}]}',
        b'{"model":"tale","messages":[],"max_tokens":' + b"9" * 5000 + b"}",
        b'{"model":"tale","temperature":1e999,"messages":[]}',
        b'{"\\ud83d":1}',
    ],
    ids=lambda body: repr(body[:30]),
)
def test_bytes_that_make_no_sense_are_a_400_whose_body_can_be_sent(body: bytes) -> None:
    json.loads(refused(body).body())


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def _survives(body: bytes) -> None:
    try:
        assert isinstance(parse_chat(body), ChatRequest)
    except ApiError as error:
        assert error.status == 400
        json.loads(error.body())


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(CHECKS)), values, max_size=3))
def test_any_value_in_any_field_is_taken_or_refused(changes: dict[str, Any]) -> None:
    _survives(json.dumps(GOOD | changes).encode())


@settings(max_examples=100)
@given(st.binary(max_size=60) | values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_taken_or_refused(body: bytes) -> None:
    _survives(body)


# --- answers ------------------------------------------------------------------------------------

HEAD = AnswerHead("chatcmpl-1", 1_790_000_000, "tale", "default")
counts = st.integers(0, 10**6)


@given(counts, counts, counts)
def test_disjoint_classes_become_openais_nested_ones(fresh: int, cached: int, output: int) -> None:
    shape = usage_shape(Usage(input=fresh, cached_input=cached, output=output))
    assert shape["prompt_tokens"] == fresh + cached
    assert shape["prompt_tokens_details"]["cached_tokens"] == cached
    assert shape["total_tokens"] == fresh + cached + output


def test_whole_answer_is_what_the_openai_client_reads() -> None:
    raw = whole_answer(HEAD, "Hi \U0001f600", "stop", Usage(input=3, output=2), "0.001")
    found = ChatCompletion.model_validate_json(raw, strict=True)
    assert found.choices[0].message.content == "Hi \U0001f600"
    assert found.usage is not None and found.usage.total_tokens == 5
    assert found.service_tier == "default"


@pytest.mark.parametrize("with_usage", [True, False])
def test_chunks_are_what_the_openai_client_reads(with_usage: bool) -> None:
    shaper = ChunkShaper(HEAD, with_usage)
    raws = [
        shaper.opening(),
        shaper.delta({"content": "Hi"}, None),
        shaper.delta({}, "stop"),
        shaper.delta({}, "length", {"stop_reason": "budget_exhausted"}),
    ]
    if with_usage:
        raws.append(shaper.usage(Usage(input=3, output=2), "0.001", {"pool": "p"}))
    chunks = [ChatCompletionChunk.model_validate_json(raw, strict=True) for raw in raws]
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[2].choices[0].finish_reason == "stop"
    assert [("usage" in json.loads(raw)) for raw in raws] == [with_usage] * len(raws)
    if with_usage:
        assert chunks[-1].choices == []
        assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 2
