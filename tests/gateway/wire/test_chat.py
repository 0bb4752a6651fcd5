"""The table of what a body may say: every field, good and bad, with the exact refusal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from billing.types import Usage
from gateway.call.frame import Choice, Logprobs, Scored
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import ByteBound
from gateway.errors import ApiError
from gateway.wire.answer import AnswerHead, Envelope, usage_shape
from gateway.wire.bodies.chat import ChatForm, parse_chat
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.wire.bodies import assert_taken_or_refused, payloads, refused, values

USER = {"role": "user", "content": "Hi"}
GOOD = {"model": "tale", "messages": [USER]}


def parse(**changes: Any) -> GeneratingRequest:
    return parse_chat(json.dumps(GOOD | changes).encode())


def wanted(**changes: Any) -> Conversation:
    found = parse(**changes).payload
    assert isinstance(found, Conversation)
    return found


def image(url: str = "https://example.com/a.png", **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url} | more}


OBFUSCATED = {"stream": True, "stream_options": {"include_obfuscation": True}}
WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"model": 5}, "model", "invalid_type"),
    ({"messages": None}, "messages", "missing_required_parameter"),
    ({"messages": []}, "messages", "empty_array"),
    ({"messages": "Hi"}, "messages", "invalid_type"),
    ({"messages": ["Hi"]}, "messages[0]", "invalid_type"),
    (
        {"messages": [USER, {"role": "tool", "content": "x"}]},
        "messages[1].tool_call_id",
        "missing_required_parameter",
    ),
    ({"messages": [USER, {"role": "function"}]}, "messages[1].role", "invalid_value"),
    ({"messages": [USER | {"name": 5}]}, "messages[0].name", "invalid_type"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"content": "x"}]}, "messages[0].role", "invalid_value"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "invalid_type"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", "invalid_type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "messages[0].content[0].type",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0].image_url",
        "missing_required_parameter",
    ),
    (
        {"messages": [{"role": "user", "content": [image("file:///etc/passwd")]}]},
        "messages[0].content[0].image_url.url",
        "invalid_image_url",
    ),
    (
        {"messages": [{"role": "user", "content": [image(detail="huge")]}]},
        "messages[0].content[0].image_url.detail",
        "invalid_value",
    ),
    (
        {"messages": [{"role": "system", "content": [image()]}]},
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
    *(
        (
            {"messages": [{"role": role, "content": [part | {"cache_control": {}}]}]},
            "messages[0].content[0].cache_control",
            "unknown_parameter",
        )
        for role, part in (
            ("user", {"type": "text", "text": "a"}),
            ("user", image()),
            ("assistant", {"type": "refusal", "refusal": "no"}),
        )
    ),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "empty_array"),
    ({"stream": "yes"}, "stream", "invalid_type"),
    (OBFUSCATED, "stream_options.include_obfuscation", "unsupported_parameter"),
    ({"stream_options": True}, "stream_options", "invalid_type"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage", "invalid_type"),
    ({"stream_options": {"other": True}}, "stream_options.other", None),
    ({"stream_options": {"include_usage": True}}, "stream_options", None),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
    ({"max_tokens": True}, "max_tokens", "invalid_type"),
    ({"max_completion_tokens": "many"}, "max_completion_tokens", "invalid_type"),
    (
        {"max_tokens": 5, "max_completion_tokens": 7},
        "max_tokens",
        "invalid_parameter_combination",
    ),
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
    ({"user": "u" * 513}, "user", "string_above_max_length"),
    ({"prompt_cache_key": "k" * 65}, "prompt_cache_key", "string_above_max_length"),
    ({"metadata": {"a": 1}}, "metadata", "invalid_type"),
    ({"metadata": {str(n): "x" for n in range(17)}}, "metadata", "invalid_value"),
    ({"n": 0}, "n", "invalid_value"),
    ({"n": 129}, "n", "invalid_value"),
    ({"logprobs": 2}, "logprobs", "invalid_type"),
    ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", "invalid_value"),
    ({"top_logprobs": 2}, "top_logprobs", None),
    ({"presence_penalty": 2.5}, "presence_penalty", "invalid_value"),
    ({"frequency_penalty": "x"}, "frequency_penalty", "invalid_type"),
    ({"logit_bias": {"a": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"05": 1}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"5": 101}}, "logit_bias.5", "invalid_value"),
    ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias", "invalid_value"),
    ({"logit_bias": {"5": 1}, "model": "auto"}, "logit_bias", "invalid_value"),
    ({"metadata": {"k" * 65: "x"}}, "metadata", "invalid_value"),
    ({"metadata": {"k": "x" * 513}}, "metadata.k", "string_above_max_length"),
    ({"safety_identifier": "x" * 65}, "safety_identifier", "string_above_max_length"),
    ({"store": True}, "store", "unsupported_parameter"),
    ({"store": 0}, "store", "unsupported_parameter"),
    ({"functions": [{"name": "f"}]}, "functions", "unsupported_parameter"),
    ({"function_call": {"name": "f"}}, "function_call", "unsupported_parameter"),
    ({"reasoning_effort": "huge"}, "reasoning_effort", "invalid_value"),
    ({"verbosity": "loud"}, "verbosity", "invalid_value"),
    ({"modalities": ["text", "audio"]}, "modalities", "unsupported_parameter"),
    ({"audio": {"voice": "alloy", "format": "wav"}}, "audio", "unsupported_parameter"),
    ({"prediction": {"type": "content"}}, "prediction", "unsupported_parameter"),
    ({"web_search_options": {}}, "web_search_options", "unsupported_parameter"),
    ({"moderation": {}}, "moderation", "unsupported_parameter"),
    ({"prompt_cache_options": {"mode": "no"}}, "prompt_cache_options.mode", "invalid_value"),
    ({"prompt_cache_options": {"size": 1}}, "prompt_cache_options.size", "unknown_parameter"),
    ({"prompt_cache_retention": "1w"}, "prompt_cache_retention", "invalid_value"),
    ({"nonsense": 1}, "nonsense", None),
]


@pytest.mark.parametrize(("changes", "param", "code"), WRONG, ids=lambda value: str(value)[:50])
def test_wrong_field_is_named_with_its_code(
    changes: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(parse_chat, GOOD | changes)
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
    "parallel_tool_calls": True,
    "reasoning_effort": "none",
    "verbosity": "medium",
    "user": "u",
    "metadata": {"a": "b"},
    "stop": None,
}


def test_fields_at_their_neutral_value_pass_and_do_not_reach_the_engine() -> None:
    assert wanted(**NEUTRAL).sampling == {}


def test_hint_goes_to_servers_outside_and_steers_no_model_here() -> None:
    hints = {"reasoning_effort": "high", "verbosity": "low"}
    found = wanted(**hints)
    assert hints.items() <= found.outside_body(9).items()
    assert found.own_body(9).keys() == wanted().own_body(9).keys()


@pytest.mark.parametrize("name", sorted(CHAT.checks))
def test_null_is_as_good_as_left_out_but_for_what_is_required(name: str) -> None:
    if name not in GOOD:
        assert parse(**{name: None}) == parse()


def test_sampling_goes_on_as_it_is() -> None:
    sampling = {"temperature": 0, "top_p": 0.5, "stop": ["a", "b"], "seed": -(2**63)}
    assert wanted(**sampling).sampling == sampling


def test_ceiling_has_two_names_that_may_not_contradict_each_other() -> None:
    for ceiling in ({"max_tokens": 7}, {"max_completion_tokens": 7}):
        assert parse(**ceiling).output_tokens_max == 7
    assert parse(max_tokens=7, max_completion_tokens=7).output_tokens_max == 7


@pytest.mark.parametrize("content", ["I would, but ", [{"type": "text", "text": "I would, but "}]])
def test_model_is_told_what_it_said_and_what_it_refused(content: object) -> None:
    both = {"role": "assistant", "content": content, "refusal": "no."}
    assert wanted(messages=[both, USER]).messages[0]["content"] == "I would, but no."


def test_answer_is_taken_back_as_clients_keep_it() -> None:
    """OpenAI's own sends what it read, litellm its notes beside."""
    kept = {"role": "assistant", "content": "Hi", "annotations": [], "refusal": None, "audio": None}
    noted = kept | {"provider_specific_fields": {"refusal": None}, "function_call": None}
    asked = wanted(messages=[USER, noted, USER])
    plain = {"role": "assistant", "content": "Hi"}
    assert asked.own_body(9)["messages"][1] == asked.outside_body(9)["messages"][1] == plain


def by_schema(description: str | None) -> dict[str, Any]:
    schema = {"name": "town", "schema": {"type": "object"}, "description": description}
    return {"type": "json_schema", "json_schema": schema}


def test_model_is_told_what_its_form_is_for() -> None:
    """Servers outside get the field itself; ours know a schema by its grammar alone."""
    asked = wanted(response_format=by_schema("A town in France."))
    told = {"role": "system", "content": "Answer in the form 'town': A town in France."}
    assert asked.own_body(9)["messages"] == (told, USER)
    assert asked.outside_body(9)["messages"] == (USER,)
    outside = asked.outside_body(9)["response_format"]["json_schema"]
    assert outside["description"] == "A town in France."
    ruled = {"role": "system", "content": "Be kind."}
    asked = wanted(messages=[ruled, USER], response_format=by_schema("A town."))
    both = {"role": "system", "content": "Be kind.\n\nAnswer in the form 'town': A town."}
    assert asked.own_body(9)["messages"] == (both, USER)
    for nothing in (None, ""):
        assert wanted(response_format=by_schema(nothing)).own_body(9)["messages"] == (USER,)


def test_parts_are_joined_and_developer_speaks_as_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    request = wanted(messages=[{"role": "developer", "content": parts}])
    assert request.messages == ({"role": "system", "content": "ab"},)


def test_images_are_bounded_where_they_are_taken_and_refused_where_not() -> None:
    parts = [image(), {"type": "text", "text": "What is it?"}, image("data:image/png;base64,AAAA")]
    asked = wanted(messages=[USER, {"role": "user", "content": parts}])
    plain = wanted(messages=[USER, {"role": "user", "content": "What is it?"}])
    [text] = plain.prompt_tokens(ByteBound(700))
    assert asked.prompt_tokens(ByteBound(700)) == (text + 2 * 700,)
    with pytest.raises(ApiError, match="image_url is only supported by certain models") as caught:
        asked.prompt_tokens(ByteBound())
    assert (caught.value.status, caught.value.param) == (400, "messages[1].content[0]")
    assert asked.outside_body(5)["messages"][1]["content"] == parts


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
    json.loads(refused(parse_chat, body).body())


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(CHAT.checks)), values, max_size=3))
def test_any_value_in_any_field_is_taken_or_refused(changes: dict[str, Any]) -> None:
    assert_taken_or_refused(parse_chat, GOOD | changes)


@settings(max_examples=100)
@given(st.binary(max_size=60) | values.map(lambda v: json.dumps(v).encode()))
def test_any_bytes_are_taken_or_refused(body: bytes) -> None:
    assert_taken_or_refused(parse_chat, body)


# --- answers ------------------------------------------------------------------------------------

HEAD = AnswerHead("1", 1_790_000_000, "tale", "default")
counts = st.integers(0, 10**6)


@given(counts, counts, counts)
def test_disjoint_classes_become_openais_nested_ones(fresh: int, cached: int, output: int) -> None:
    shape = usage_shape(Usage(input=fresh, cached_input=cached, output=output))
    assert shape["prompt_tokens"] == fresh + cached
    assert shape["prompt_tokens_details"]["cached_tokens"] == cached
    assert shape["total_tokens"] == fresh + cached + output


SCORED = Logprobs(content=[Scored("Hi", -0.5, list(b"Hi"))])


def said(index: int, text: str, finish: str | None = None) -> Choice:
    return Choice(
        index=index,
        delta={"content": text},
        finish_reason=finish,
        logprobs=SCORED if text else None,
    )


def test_whole_answer_is_what_the_openai_client_reads() -> None:
    choices = [WholeChoice(0), WholeChoice(1)]
    for piece in (said(1, "Ho"), said(0, "Hi "), said(0, "\U0001f600", "stop")):
        choices[piece.index].add(piece)
    raw = ChatForm(2, scored=True).whole(HEAD, choices, Usage(input=3, output=2), "0.001")
    found = ChatCompletion.model_validate_json(raw, strict=True)
    assert found.id == "chatcmpl-1"
    assert [c.message.content for c in found.choices] == ["Hi \U0001f600", "Ho"]
    assert [c.finish_reason for c in found.choices] == ["stop", "length"], "the second was cut"
    assert found.usage is not None and found.usage.total_tokens == 5
    assert found.service_tier == "default"
    [first, second] = found.choices
    assert first.logprobs and first.logprobs.content and len(first.logprobs.content) == 2
    assert second.logprobs and second.logprobs.content
    assert second.logprobs.content[0].bytes == list(b"Hi")


@pytest.mark.parametrize("with_usage", [True, False])
@pytest.mark.parametrize("scored", [True, False])
def test_chunks_are_what_the_openai_client_reads(with_usage: bool, scored: bool) -> None:
    form = ChatForm(2, scored).chunks(HEAD, with_usage)
    events = [
        *form.opening({"pool": "p"}),
        *form.piece(said(0, "Hi", "stop"), None),
        *form.piece(said(1, ""), None),
        *form.piece(said(1, "", "length"), {"stop_reason": "budget_exhausted"}),
        form.end(Usage(input=3, output=2), "0.001", {"pool": "p"}),
    ]
    raws = payloads(events)
    chunks = [ChatCompletionChunk.model_validate_json(raw, strict=True) for raw in raws]
    assert [c.choices[0].delta.role for c in chunks[:2]] == ["assistant", "assistant"]
    assert [c.choices[0].index for c in chunks[:5]] == [0, 1, 0, 0, 1]
    assert [c.choices[0].finish_reason for c in chunks[2:5]] == [None, "stop", "length"]
    assert bool(chunks[2].choices[0].logprobs) is scored
    assert [("usage" in json.loads(raw)) for raw in raws] == [with_usage] * len(raws)
    if with_usage:
        assert chunks[-1].choices == []
        assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 2


def test_own_workers_and_outside_are_asked_in_their_own_words() -> None:
    asked = wanted(n=2, logprobs=True, top_logprobs=3, seed=1)
    assert asked.own_body(7) == {
        "messages": asked.messages,
        "max_tokens": 7,
        "n": 2,
        "logprobs": 3,
        "seed": 1,
    }
    outside = asked.outside_body(7)
    assert (outside["logprobs"], outside["top_logprobs"], outside["n"]) == (True, 3, 2)
    assert outside["stream_options"] == {"include_usage": True}
    assert "logprobs" not in wanted().outside_body(7)


@given(index=st.integers(0, 127), text=st.text(), includes_usage=st.booleans())
def test_chunk_of_text_alone_is_the_one_that_any_chunk_is(
    index: int, text: str, includes_usage: bool
) -> None:
    envelope = Envelope({"id": "chatcmpl-1", "model": "tale"}, includes_usage)
    choice = {
        "index": index,
        "delta": {"content": text},
        "logprobs": None,
        "finish_reason": None,
    }
    assert envelope.text_chunk(index, text) == envelope.chunk(choice)
