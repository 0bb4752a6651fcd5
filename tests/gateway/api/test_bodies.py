"""What bodies are described to be is what they may be: nothing that is taken is called wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.api.openapi.bodies import BODIES, FORMS
from gateway.audio.speech import parse_speech
from gateway.errors import ApiError
from gateway.images.generations import parse_images
from gateway.scores.moderations import parse_moderation
from gateway.scores.rerank import parse_rerank
from gateway.wire.anthropic.body import parse_count, parse_message
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from gateway.wire.bodies.tokenize import parse_detokenize, parse_tokenize
from gateway.wire.responses.body import parse_input_count, parse_response
from tests.gateway.wire.bodies import values

OBJECT = {"type": "object"}
FUNCTION = {"name": "f", "description": "d", "parameters": OBJECT, "strict": True}
TOOL = {"type": "function", "function": FUNCTION}
NAMED = {"type": "function", "function": {"name": "f"}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}}
TEXT, REFUSED = {"type": "text", "text": "a"}, {"type": "refusal", "refusal": "no"}
KEPT = {"annotations": [], "provider_specific_fields": {}, "reasoning_content": "Hm."}
MESSAGES = [
    {"role": "system", "content": [TEXT], "name": "s"},
    {"role": "developer", "content": "d"},
    {"role": "user", "content": [TEXT, IMAGE], "name": "u"},
    {"role": "assistant", "content": [TEXT, REFUSED], "name": "a"} | KEPT,
    {"role": "assistant", "content": None, "refusal": "no", "tool_calls": None},
    {"role": "assistant", "content": None, "tool_calls": [CALL | {"index": 0}]},
    {"role": "tool", "content": [TEXT], "tool_call_id": "c", "name": "f"},
    {"role": "user", "content": "b"},
]
SCHEMA = {"name": "n", "description": "d", "schema": OBJECT, "strict": True}
SAMPLING = {
    "temperature": 1,
    "top_p": 0.5,
    "stop": ["a"],
    "seed": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0.5,
    "logit_bias": {"5": 1},
    "n": 2,
    "max_tokens": 5,
    "stream": True,
    "service_tier": "flex",
    "user": "u",
}
LABELS = {"metadata": {"a": "b"}, "safety_identifier": "s", "prompt_cache_key": "k"}
NEUTRAL = {
    "store": False,
    "modalities": ["text"],
    "functions": [],
    "function_call": "none",
    "reasoning_effort": "none",
    "verbosity": "medium",
    "prompt_cache_retention": "in_memory",
}
CHAT = SAMPLING | LABELS | NEUTRAL | {"model": "m", "messages": MESSAGES, "tools": [TOOL]}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
BY_SCHEMA = {"type": "json_schema", "json_schema": SCHEMA}
SCORE = {"token": "a", "logprob": -1, "bytes": [97], "top_logprobs": []}
SAID = {"type": "output_text", "text": "a", "annotations": [], "logprobs": [SCORE]}
BOOKED = {"id": "i", "status": "completed"}
SEEN = {"type": "input_image", "image_url": "data:image/png;base64,aa", "detail": "auto"}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
PHASE = {"phase": "commentary"}
ASKED = {"type": "input_text", "text": "a"}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "a"}
CUSTOM = {"type": "custom", "name": "g", "description": "d", "format": GRAMMAR}
SEARCH = {"type": "web_search", "external_web_access": True}
INSIDE = {"type": "namespace", "name": "n", "description": "d", "tools": [CUSTOM]}
ITEMS = [
    {"role": "developer", "content": [{"type": "input_text", "text": "a"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}, SEEN]},
    THOUGHT | BOOKED | {"summary": [{"type": "summary_text", "text": "Hm."}]},
    {"type": "message", "role": "assistant", "content": [SAID, REFUSED]} | BOOKED | PHASE,
    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"} | BOOKED,
    {"type": "function_call_output", "call_id": "c", "output": "a"} | BOOKED,
    {"type": "additional_tools", "role": "developer", "tools": [INSIDE]} | BOOKED,
    {"type": "function_call", "call_id": "n", "namespace": "n", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "n", "output": [ASKED, SEEN]},
    {"type": "custom_tool_call", "call_id": "d", "namespace": "n", "name": "f", "input": "a"},
    {"type": "custom_tool_call_output", "call_id": "d", "output": "a", "name": "f"},
    {"type": "local_shell_call", "call_id": "s", "action": {"a": "b"}} | BOOKED,
    {"type": "local_shell_call_output", "id": "s", "output": "a"},
]
INPUT = {
    "model": "m",
    "input": ITEMS,
    "instructions": "Be kind.",
    "tools": [
        {"type": "function", "defer_loading": True} | FUNCTION,
        CUSTOM | {"format": {"type": "text"}, "defer_loading": False},
        {"type": "local_shell"},
        SEARCH,
    ],
    "tool_choice": {"type": "function", "name": "f"},
    "text": {"format": {"type": "json_schema"} | SCHEMA, "verbosity": "medium"},
    "reasoning": {"effort": "none", "summary": "auto", "context": "all_turns"},
    "truncation": "disabled",
}
RESPONSE = (
    LABELS
    | INPUT
    | {
        "max_output_tokens": 5,
        "presence_penalty": 0.5,
        "frequency_penalty": 0,
        "stream": True,
        "stream_options": {"include_obfuscation": False},
        "include": ["message.output_text.logprobs"],
        "top_logprobs": 1,
        "store": False,
        "background": False,
        "context_management": [],
        "client_metadata": {"a": "b"},
    }
)
CACHED = {"cache_control": {"type": "ephemeral", "ttl": "5m", "scope": "global"}}
USE = {"type": "tool_use", "id": "t", "name": "f", "input": {}, "caller": {"type": "direct"}}
PICTURE = {"type": "base64", "media_type": "image/png", "data": "aa"}
SHOWN = {"type": "image", "source": PICTURE}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": [TEXT, SHOWN], "is_error": True}
EDIT = {"type": "clear_thinking_20251015", "keep": "all"}
THOUGHTS = [
    {"type": "thinking", "thinking": "a", "signature": "s"},
    {"type": "redacted_thinking", "data": "a"},
]
TURNS = [
    {"role": "user", "content": [TEXT | CACHED | {"citations": []}]},
    {"role": "user", "content": [SHOWN | CACHED]},
    {"role": "assistant", "content": [*THOUGHTS, TEXT, USE | CACHED]},
    {"role": "user", "content": [RESULT | CACHED]},
    {"role": "system", "content": "s"},
    {"role": "user", "content": "b"},
]
USED = {"name": "f", "description": "d", "input_schema": OBJECT, "strict": True} | CACHED
COUNTED = {
    "model": "m",
    "messages": TURNS,
    "system": [TEXT],
    "tools": [USED | {"type": "custom", "eager_input_streaming": True, "defer_loading": False}],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "output_config": {"format": {"type": "json_schema", "schema": OBJECT}, "effort": "high"},
    "thinking": {"type": "enabled", "budget_tokens": 9, "display": "omitted"},
    "context_management": {"edits": [EDIT]},
    "cache_control": {"type": "ephemeral"},
    "speed": "standard",
}
MESSAGE = COUNTED | {
    "max_tokens": 5,
    "temperature": 1,
    "top_p": 0.5,
    "stop_sequences": ["a"],
    "stream": True,
    "metadata": {"user_id": "u"},
    "service_tier": "auto",
}
SPOKEN = [message for message in MESSAGES if "image_url" not in json.dumps(message)]
Parse = Callable[[bytes], object]
PARSED: dict[str, tuple[Parse, list[dict[str, Any]]]] = {
    "/v1/chat/completions": (
        parse_chat,
        [
            CHAT | {"tool_choice": ALLOWED, "logprobs": True, "top_logprobs": 2},
            CHAT | {"response_format": BY_SCHEMA, "tool_choice": NAMED, "stop": "a"},
            CHAT | {"stream_options": {"include_usage": True, "include_obfuscation": False}},
            CHAT | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
            CHAT | {"response_format": {"type": "json_object"}, "tool_choice": "required"},
        ],
    ),
    "/v1/completions": (
        partial(parse_completion, text_of=lambda model, ids: ""),
        [
            SAMPLING | {"model": "m", "prompt": prompt, "best_of": 2, "echo": True, "suffix": ""}
            for prompt in ("a", ["a", "b"], [1, 2], [[1], [2]])
        ],
    ),
    "/v1/embeddings": (
        parse_embedding,
        [{"model": "m", "input": ["a"], "dimensions": 5, "encoding_format": "float", "user": "u"}],
    ),
    **{
        path: (
            parse_rerank,
            [
                {"model": "m", "query": "q", "documents": documents, "top_n": 1}
                for documents in (["a", "b"], [{"text": "a"}])
            ],
        )
        for path in ("/v1/rerank", "/v2/rerank")
    },
    "/v1/moderations": (
        parse_moderation,
        [
            {"model": "m", "input": suspects, "user": "u"}
            for suspects in ("a", ["a", "b"], [{"type": "text", "text": "a"}])
        ],
    ),
    "/v1/audio/speech": (
        parse_speech,
        [
            {"model": "m", "input": "a", "voice": voice, "speed": 4, "stream_format": "audio"}
            for voice in ("alloy", {"id": "v"})
        ],
    ),
    "/v1/images/generations": (
        parse_images,
        [
            {
                **{"model": "m", "prompt": "a", "n": 2, "size": "1024x1024", "quality": "high"},
                **{"response_format": "url", "output_format": "png", "output_compression": 5},
                **{"background": "opaque", "moderation": "low", "style": "vivid", "user": "u"},
                **{"stream": False, "partial_images": 0},
            },
        ],
    ),
    "/v1/responses": (
        parse_response,
        [RESPONSE, RESPONSE | {"input": "a", "text": {"format": {"type": "text"}}}],
    ),
    "/v1/responses/input_tokens": (
        parse_input_count,
        [INPUT, INPUT | {"parallel_tool_calls": True}],
    ),
    "/v1/messages": (
        parse_message,
        [
            MESSAGE | {"mcp_servers": []},
            MESSAGE | {"system": "s", "tool_choice": {"type": "any"}},
            MESSAGE | {"thinking": {"type": "adaptive", "display": "summarized"}},
            MESSAGE | {"thinking": {"type": "disabled"}},
        ],
    ),
    "/v1/messages/count_tokens": (parse_count, [COUNTED]),
    "/v1/tokenize": (
        parse_tokenize,
        [
            {"model": "m", "prompt": "a", "add_special_tokens": True, "return_token_strs": True},
            {"model": "m", "messages": SPOKEN, "tools": [TOOL], "add_generation_prompt": False},
        ],
    ),
    "/v1/detokenize": (parse_detokenize, [{"model": "m", "tokens": [1]}]),
}


def test_no_body_that_is_read_by_hand_is_left_out() -> None:
    assert PARSED.keys() == BODIES.keys() - FORMS - {"/v1/quote"}


def is_taken(parse: Parse, body: object) -> bool:
    try:
        parse(json.dumps(body).encode())
    except ApiError as refused:
        assert refused.status == 400
        return False
    return True


@cache
def described(path: str) -> Draft202012Validator:
    return Draft202012Validator(BODIES[path])


def mistakes(path: str, body: object) -> list[str]:
    return [
        f"{list(e.absolute_path)}: {e.message[:200]}" for e in described(path).iter_errors(body)
    ]


@pytest.mark.parametrize("path", PARSED)
def test_everything_that_may_be_said_is_described_and_taken(path: str) -> None:
    parse, bodies = PARSED[path]
    for body in bodies:
        assert mistakes(path, body) == []
        parse(json.dumps(body).encode())


def objects_in(found: Any) -> Iterator[Any]:
    """Every object of a body that has fields of ours, the body itself too."""
    if isinstance(found, dict):
        if found != OBJECT:
            yield found
        found = list(found.values())
    if isinstance(found, list):
        for part in found:
            yield from objects_in(part)


OPEN = ({}, {"a": "b"}, {"5": 1}, SCORE, EDIT, SEARCH)
"""Whatever a tool is given, metadata, biases: their keys are the caller's. Nothing is made of what
an earlier answer scored, of edits that Anthropic's servers would apply, and of a search, which is
left out."""


@pytest.mark.parametrize("path", PARSED)
def test_what_nobody_knows_is_refused_and_called_wrong_everywhere(path: str) -> None:
    parse, bodies = PARSED[path]
    for body in bodies:
        for place, found in enumerate(objects_in(body)):
            if found in OPEN:
                continue
            wrong = deepcopy(body)
            list(objects_in(wrong))[place]["x_unknown"] = {"a": 1}
            assert not described(path).is_valid(wrong), found
            assert not is_taken(parse, wrong), found


def places(found: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is said, however deep."""
    inner = found.items() if isinstance(found, dict) else ()
    for key, value in inner if isinstance(found, dict) else enumerate(found):
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from places(value, (*at, key))


ODD = (0, 1.0, True, "", "a", [], {}, [""], [[]], None, "none", -1, 2**40)


def changed(body: Any, place: tuple[Any, ...], value: object) -> Any:
    """The same with another value there, or without it for an Ellipsis. What lies beside its way is
    shared: to copy all of it takes longer than to read it."""
    key, *inner = place
    wrong = body.copy()
    if inner:
        wrong[key] = changed(body[key], tuple(inner), value)
    elif value is ...:
        del wrong[key]
    else:
        wrong[key] = value
    return wrong


@pytest.mark.parametrize("path", PARSED)
def test_nothing_that_is_taken_is_called_wrong(path: str) -> None:
    """An odd value at any place of a body that says everything, or that place left out."""
    parse, bodies = PARSED[path]
    for body in bodies:
        for place in places(body):
            for value in (*ODD, ...):
                wrong = changed(body, place, value)
                assert not is_taken(parse, wrong) or not mistakes(path, wrong), (place, value)


@settings(max_examples=300)
@given(st.data())
def test_nothing_at_random_that_is_taken_is_called_wrong(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(PARSED)))
    parse, bodies = PARSED[path]
    body = data.draw(st.sampled_from(bodies))
    wrong = changed(body, data.draw(st.sampled_from(list(places(body)))), data.draw(values))
    assert not is_taken(parse, wrong) or not mistakes(path, wrong)
