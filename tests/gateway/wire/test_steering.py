"""The fields of vLLM's callers: where they go, and the exact words where they are wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding

Parse = Callable[[dict[str, Any]], GeneratingRequest]


def chat(fields: dict[str, Any]) -> GeneratingRequest:
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    return parse_chat(json.dumps(said | fields).encode())


def completion(fields: dict[str, Any]) -> GeneratingRequest:
    said = {"model": "m", "prompt": "Hi"}
    return parse_completion(json.dumps(said | fields).encode(), lambda _, ids: str(ids))


def embedding(fields: dict[str, Any]) -> GeneratingRequest:
    return parse_embedding(json.dumps({"model": "m", "input": "Hi"} | fields).encode())


BOTH = pytest.mark.parametrize("parse", [chat, completion])
STEERED: dict[str, Any] = {
    "top_k": 40,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "min_tokens": 3,
    "ignore_eos": True,
    "stop_token_ids": [5, 6],
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "truncate_prompt_tokens": 9,
    "prompt_logprobs": 2,
}
NEUTRAL: dict[str, Any] = {
    "top_k": (0, -1),
    "min_p": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "presence_penalty": (0,),
    "frequency_penalty": (0.0,),
    "logit_bias": ({},),
    "min_tokens": (0,),
    "ignore_eos": (False,),
    "stop_token_ids": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "use_beam_search": (False,),
    "length_penalty": (1, 1.0),
    "bad_words": ([],),
    "priority": (0,),
    "spaces_between_special_tokens": (True,),
    "return_token_ids": (False,),
    "truncate_prompt_tokens": (),
    "prompt_logprobs": (),
    "structured_outputs": (),
    "allowed_token_ids": (),
    "vllm_xargs": (),
}
RENDERED: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False},
    "add_generation_prompt": False,
    "continue_final_message": True,
}


@BOTH
def test_they_go_to_every_engine_and_on_to_servers_outside(parse: Parse) -> None:
    wanted = parse(STEERED).payload
    assert wanted.own_body(9).items() >= STEERED.items()
    assert wanted.outside_body(9).items() >= STEERED.items()


@BOTH
def test_what_is_neutral_or_null_is_no_request(parse: Parse) -> None:
    plain = parse({}).payload
    for name, values in NEUTRAL.items():
        for value in (None, *values):
            wanted = parse({name: value}).payload
            assert wanted.own_body(9) == plain.own_body(9), (name, value)
            assert wanted.outside_body(9) == plain.outside_body(9), (name, value)


def test_a_temperature_is_said_outside_even_where_it_is_ours_by_default() -> None:
    assert chat({"temperature": 1}).payload.outside_body(9)["temperature"] == 1


def test_how_a_conversation_is_rendered_goes_along() -> None:
    wanted = chat(RENDERED).payload
    assert wanted.own_body(9)["rendering"] == RENDERED
    assert wanted.outside_body(9).items() >= RENDERED.items()
    neutral = {"chat_template_kwargs": {}, "add_generation_prompt": True}
    assert "rendering" not in chat(neutral).payload.own_body(9)


@BOTH
@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"json": '{"type": "object"}'}, {"json": {"type": "object"}}),
        ({"json": {"type": "object"}, "regex": None}, {"json": {"type": "object"}}),
        ({"json_object": True}, {"json_object": True}),
        ({"choice": ["a", "b"], "disable_any_whitespace": False}, {"choice": ["a", "b"]}),
        ({"regex": "[0-9]+"}, {"regex": "[0-9]+"}),
    ],
)
def test_a_form_in_vllms_words_is_told_to_engines_as_the_one_that_it_is(
    parse: Parse, asked: dict[str, Any], told: dict[str, Any]
) -> None:
    wanted = parse({"structured_outputs": asked}).payload
    assert wanted.own_body(9)["structured_outputs"] == told
    assert wanted.outside_body(9)["structured_outputs"] == asked


def test_what_is_left_of_an_input_goes_along() -> None:
    wanted = embedding({"truncate_prompt_tokens": -1}).payload
    assert wanted.own_body(0)["truncate_prompt_tokens"] == -1
    assert wanted.outside_body(0)["truncate_prompt_tokens"] == -1


WRONG: list[tuple[Parse, dict[str, Any], str, str]] = [
    (chat, {"top_k": -2}, "top_k", "must be between -1 and 2147483647, but got -2"),
    (chat, {"top_k": 1.5}, "top_k", "expected an integer"),
    (chat, {"min_p": 1.01}, "min_p", "must be between 0 and 1, but got 1.01"),
    (chat, {"repetition_penalty": 0}, "repetition_penalty", "must be between 0.01 and 10"),
    (chat, {"min_tokens": -1}, "min_tokens", "must be between 0 and 2147483648"),
    (chat, {"min_tokens": 9, "max_tokens": 8}, "min_tokens", "'max_tokens', which is 8"),
    (completion, {"min_tokens": 17}, "min_tokens", "'max_tokens', which is 16"),
    (chat, {"ignore_eos": 1}, "ignore_eos", "expected a boolean"),
    (chat, {"stop_token_ids": [-1]}, "stop_token_ids", "expected an array of token ids"),
    (chat, {"stop_token_ids": [1] * 129}, "stop_token_ids", "at most 128"),
    (chat, {"stop_token_ids": [1], "model": "auto"}, "stop_token_ids", "belong to one model"),
    (chat, {"truncate_prompt_tokens": 0}, "truncate_prompt_tokens", "must be -1 or at least 1"),
    (embedding, {"truncate_prompt_tokens": -2}, "truncate_prompt_tokens", "between -1 and"),
    (chat, {"prompt_logprobs": 21}, "prompt_logprobs", "must be between 0 and 20"),
    (completion, {"prompt_logprobs": 1, "stream": True}, "prompt_logprobs", "not available"),
    (chat, {"chat_template_kwargs": []}, "chat_template_kwargs", "expected an object"),
    (
        chat,
        {"chat_template_kwargs": {"messages": []}},
        "chat_template_kwargs.messages",
        "not for the caller",
    ),
    (chat, {"continue_final_message": True}, "continue_final_message", "add_generation_prompt"),
    (chat, {"structured_outputs": {}}, "structured_outputs", "has one of"),
    (
        chat,
        {"structured_outputs": {"regex": "a", "choice": ["a"]}},
        "structured_outputs",
        "has one of",
    ),
    (chat, {"structured_outputs": {"regex": ""}}, "structured_outputs.regex", "1 to 4096"),
    (chat, {"structured_outputs": {"x": 1}}, "structured_outputs.x", "Unknown parameter"),
    (
        chat,
        {"structured_outputs": {"json": "{"}},
        "structured_outputs.json",
        "not valid JSON",
    ),
    (
        chat,
        {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
        "structured_outputs",
        "one form",
    ),
    (chat, {"bad_words": ["a"]}, "bad_words", "not supported"),
    (chat, {"use_beam_search": True}, "use_beam_search", "not supported"),
    (chat, {"stream_options": {"x": True}, "stream": True}, "stream_options.x", "Unrecognized"),
]


@pytest.mark.parametrize(("parse", "fields", "param", "words"), WRONG)
def test_a_wrong_value_is_named_with_its_bounds(
    parse: Parse, fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(ApiError) as refused:
        parse(fields)
    assert (refused.value.status, refused.value.param) == (400, param)
    assert words in refused.value.message


def test_a_field_that_some_pool_takes_goes_on_to_servers_outside_alone() -> None:
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "top_a": 0.2}
    body = json.dumps(said | {"bad_words": ["no"], "odd": None}).encode()
    taken = {"top_a", "bad_words", "odd", "other"}
    wanted = parse_chat(body, lambda model: taken if model == "m" else ()).payload
    assert wanted.extra == {"top_a": 0.2, "bad_words": ["no"]}
    assert wanted.outside_body(9).items() >= {"top_a": 0.2, "bad_words": ["no"]}.items()
    assert "top_a" not in wanted.own_body(9)
    with pytest.raises(ApiError, match="Unrecognized request argument supplied: top_a"):
        parse_chat(body)
