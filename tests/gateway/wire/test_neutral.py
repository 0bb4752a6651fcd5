"""`null`, or a value that asks for nothing, is no request, of whichever field and route: clients
fill in what they know, and no call is refused for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from gateway.call.request import GeneratingRequest
from gateway.wire.anthropic import body as messages
from gateway.wire.bodies import chat, completions, embeddings
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.checks import Check
from gateway.wire.responses import body as responses

Json = dict[str, Any]
USER = {"role": "user", "content": "Hi"}
ROUTES: dict[str, tuple[Callable[[bytes], GeneratingRequest], Mapping[str, Check], Json]] = {
    "chat": (chat.parse_chat, CHAT.checks, {"model": "tale", "messages": [USER]}),
    "completions": (
        partial(completions.parse_completion, text_of=lambda model, ids: ""),
        completions.COMPLETION.checks,
        {"model": "tale", "prompt": "Hi"},
    ),
    "responses": (
        responses.parse_response,
        responses.RESPONSE.checks,
        {"model": "tale", "input": "Hi"},
    ),
    "embeddings": (
        embeddings.parse_embedding,
        embeddings.READER.checks,
        {"model": "vectors", "input": "Hi"},
    ),
    "messages": (
        messages.parse_message,
        messages.MESSAGE.checks,
        {"model": "tale", "messages": [USER], "max_tokens": 5},
    ),
}
SAMPLED: dict[str, list[Any]] = {
    "temperature": [1, 1.0],
    "top_p": [1, 1.0],
    "stream": [False],
    "service_tier": ["auto", "default"],
}
GENERATED: dict[str, list[Any]] = SAMPLED | {
    "stream_options": [{}, {"include_usage": False}, {"include_usage": None}],
    "stop": [[]],
    "n": [1],
    "presence_penalty": [0, 0.0],
    "frequency_penalty": [0, 0.0],
    "logit_bias": [{}],
    "user": ["", "somebody"],
}
LABELS: dict[str, list[Any]] = {
    "metadata": [{}, {"a": "b"}],
    "safety_identifier": [""],
    "prompt_cache_key": [""],
    "prompt_cache_options": [{}, {"mode": "implicit", "ttl": None}],
    "prompt_cache_retention": ["in_memory", "24h"],
}
CALLING: dict[str, list[Any]] = {
    "tools": [[]],
    "tool_choice": ["auto", "none"],
    "parallel_tool_calls": [True, False],
}
NEUTRAL: dict[str, dict[str, list[Any]]] = {
    "chat": GENERATED
    | LABELS
    | CALLING
    | {
        "logprobs": [False],
        "top_logprobs": [0],
        "store": [False],
        "response_format": [{"type": "text"}],
        "modalities": [["text"]],
        "functions": [[]],
        "function_call": ["none", "auto"],
        "reasoning_effort": ["none"],
        "verbosity": ["medium"],
        "mirostat": [0],
        "tfs_z": [1, 1.0],
        "repeat_penalty": [1, 1.0],
        "think": [False],
        "format": [""],
    },
    "completions": GENERATED | {"best_of": [1], "echo": [False], "suffix": [""]},
    "responses": SAMPLED
    | LABELS
    | CALLING
    | {
        "stream_options": [{}, {"include_obfuscation": None}, {"include_obfuscation": False}],
        "presence_penalty": [0],
        "frequency_penalty": [0],
        "text": [{}, {"format": None, "verbosity": None}, {"format": {"type": "text"}}],
        "reasoning": [{}, {"effort": None, "summary": None, "generate_summary": None}],
        "include": [[]],
        "top_logprobs": [0],
        "truncation": ["disabled"],
        "store": [False],
        "background": [False],
        "instructions": [""],
        "context_management": [[]],
        "user": [""],
    },
    "embeddings": {
        "encoding_format": ["float"],
        "service_tier": ["auto", "default"],
        "user": [""],
    },
    "messages": {
        "temperature": [1],
        "top_p": [1],
        "stream": [False],
        "stop_sequences": [[]],
        "system": ["", []],
        "tools": [[]],
        "tool_choice": [
            {"type": "auto"},
            {"type": "none"},
            {"type": "auto", "disable_parallel_tool_use": False},
            {"type": "auto", "disable_parallel_tool_use": True},
        ],
        "metadata": [{}, {"user_id": None}],
        "service_tier": ["auto"],
        "thinking": [{"type": "disabled"}],
        "output_config": [{}, {"format": None, "effort": None}],
        "speed": ["standard"],
    },
}
WITHIN: dict[str, list[Json]] = {
    "chat": [
        {"messages": [USER | {"name": None, "tool_calls": None, "tool_call_id": None}]},
        {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "f",
                        "description": None,
                        "parameters": None,
                        "strict": None,
                    },
                }
            ]
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "a", "schema": {}, "strict": None, "description": None},
            }
        },
    ],
    "responses": [
        {
            "tools": [
                {
                    "type": "function",
                    "name": "f",
                    "description": None,
                    "parameters": None,
                    "strict": None,
                }
            ]
        },
        {"input": [USER | {"id": None, "status": None, "phase": None}]},
    ],
    "messages": [
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"} | nothing]}]}
        for nothing in ({"cache_control": None}, {"citations": None})
    ],
}
"""Fields within fields that clients send as null."""


def parsed(route: str, **changes: Any) -> GeneratingRequest:
    parse, _, bare = ROUTES[route]
    return parse(json.dumps(bare | changes).encode())


def asked(request: GeneratingRequest) -> tuple[Any, ...]:
    """What a call is, whoever answers it."""
    wanted = request.payload
    bodies = wanted.own_body(5), wanted.outside_body(5)
    return (*bodies, request.streaming, request.output_tokens_max, request.end_user or None)


@pytest.mark.parametrize("route", ROUTES)
def test_null_is_no_request(route: str) -> None:
    _, checks, bare = ROUTES[route]
    plain = asked(parsed(route))
    for field in checks.keys() - bare.keys():
        assert asked(parsed(route, **{field: None})) == plain, field
    assert asked(parsed(route, **dict.fromkeys(checks.keys() - bare.keys()))) == plain


ROWS = [
    (route, field, value)
    for route, fields in NEUTRAL.items()
    for field, values in fields.items()
    for value in values
]
GOES_ON = {"temperature", "top_p", "stop", "user", "reasoning_effort"} | set(LABELS)


@pytest.mark.parametrize(("route", "field", "value"), ROWS)
def test_a_neutral_value_is_no_request(route: str, field: str, value: Any) -> None:
    """What goes on to a server may say it all the same: a temperature of 1, say."""
    own, outside, *others = asked(parsed(route, **{field: value}))
    plain_own, plain_outside, *plain = asked(parsed(route))
    told = GOES_ON if value or field == "stop" else set[str]()
    assert {n: v for n, v in own.items() if n not in told} == plain_own
    assert {n: v for n, v in outside.items() if n not in told} == plain_outside
    assert others == plain or (field, value) == ("user", "somebody")


@pytest.mark.parametrize("route", WITHIN)
def test_null_within_a_field_is_taken(route: str) -> None:
    for changes in WITHIN[route]:
        parsed(route, **changes)


def test_every_field_that_has_a_neutral_value_is_known() -> None:
    for route, fields in NEUTRAL.items():
        assert fields.keys() <= ROUTES[route][1].keys(), route
