"""Answers of `/v1/messages`: whole and streamed say the same, in the shapes clients read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import ErrorResponse, Message, RawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from gateway.call.frame import Choice
from gateway.errors import ApiError, overloaded, upstream_lost
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.anthropic.form import MessageForm
from tests.gateway.wire.responses.calls import (
    COST,
    HEAD,
    USAGE,
    answers,
    calls,
    named,
    says,
    streamed,
    thinks,
    whole,
)

EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
FORM = MessageForm(stops=("END",))
THINKING = MessageForm(stops=("END",), tells_thoughts=True)
FORMS = st.sampled_from([FORM, THINKING])


def accumulated(events: list[dict[str, Any]]) -> dict[str, Any]:
    """What the official client makes of a stream."""
    snapshot, buffers = None, dict[int, bytes]()
    for event in events:
        if event["type"] != "ping":
            told = EVENT.validate_python(event, strict=True)
            snapshot = accumulate_event(event=told, current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    return snapshot.to_dict()


@given(FORMS, answers())
def test_stream_adds_up_to_the_whole_answer(form: MessageForm, pieces: list[Choice]) -> None:
    found, expected = accumulated(streamed(form, pieces)), whole(form, pieces)
    assert found.pop("usage").items() <= expected.pop("usage").items()
    assert found["content"] == expected["content"]
    assert {name: found[name] for name in expected} == expected


@given(FORMS, answers())
def test_every_answer_is_of_the_clients_shape(form: MessageForm, pieces: list[Choice]) -> None:
    Message.model_validate(whole(form, pieces), strict=True)


def test_thoughts_are_told_where_thinking_was_asked_for() -> None:
    pieces = [thinks("Hm."), thinks(" Yes."), says("Rain.", "stop")]
    thought = {"type": "thinking", "thinking": "Hm. Yes.", "signature": ""}
    assert whole(THINKING, pieces)["content"] == [thought, {"type": "text", "text": "Rain."}]
    assert whole(FORM, pieces)["content"] == [{"type": "text", "text": "Rain."}]


def test_edits_that_were_asked_for_are_told_not_to_have_been_applied() -> None:
    edited, pieces = MessageForm(stops=(), tells_edits=True), [says("Rain.", "stop")]
    none = {"applied_edits": []}
    assert whole(edited, pieces)["context_management"] == none
    [delta] = [e for e in streamed(edited, pieces) if e["type"] == "message_delta"]
    assert delta["context_management"] == none
    assert "context_management" not in whole(FORM, pieces)


@given(answers())
def test_blocks_start_and_stop_one_after_the_other(pieces: list[Choice]) -> None:
    start, ping, *blocks, delta, stop = streamed(FORM, pieces)
    assert [start["type"], ping["type"]] == ["message_start", "ping"]
    assert [delta["type"], stop["type"]] == ["message_delta", "message_stop"]
    open_block, begun = None, 0
    for event in blocks:
        kind = event["type"]
        if kind == "content_block_start":
            assert open_block is None and event["index"] == begun
            open_block, begun = event["index"], begun + 1
        assert event["index"] == open_block
        if kind == "content_block_stop":
            open_block = None
    assert open_block is None


def test_usage_leaves_out_what_the_cache_had() -> None:
    assert whole(FORM, [says("Hi", "stop")])["usage"] == {
        "input_tokens": 2,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 1,
        "output_tokens": 5,
        "service_tier": "standard",
        "cost": COST,
    }
    start, *_, delta, _ = streamed(FORM, [says("Hi", "stop")])
    assert start["message"]["usage"]["input_tokens"] == 2
    assert start["message"]["usage"]["cache_read_input_tokens"] == 1
    assert delta["usage"]["output_tokens"] == USAGE.output
    assert delta["usage"]["cost"] == COST


@pytest.mark.parametrize(
    ("piece", "reason", "sequence"),
    [
        (says("Hi", "stop"), "end_turn", None),
        (says("Hi", "stop", stop_reason="END"), "stop_sequence", "END"),
        (says("Hi", "stop", stop_reason=128009), "end_turn", None),
        (says("Hi", "stop", stop_reason="other"), "end_turn", None),
        (says("Hi", "length"), "max_tokens", None),
        (says("Hi"), "max_tokens", None),
        (says("Hi", "content_filter"), "refusal", None),
        (calls(0, "{}", name="f", finish="tool_calls"), "tool_use", None),
        (calls(0, "{}", name="f", finish="stop"), "tool_use", None),
    ],
)
def test_reason_to_stop_is_anthropics(piece: Choice, reason: str, sequence: str | None) -> None:
    for found in (whole(FORM, [piece]), accumulated(streamed(FORM, [piece]))):
        assert (found["stop_reason"], found["stop_sequence"]) == (reason, sequence)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [('{"a": 1}', {"a": 1}), ("", {}), ('{"a": ', {}), ("[1]", {}), ("null", {})],
)
def test_input_of_a_tool_is_an_object(arguments: str, given: dict[str, Any]) -> None:
    found = whole(FORM, [calls(0, arguments, name="f", finish="tool_calls")])
    assert found["content"] == [{"type": "tool_use", "id": "call_0", "name": "f", "input": given}]


def test_cut_stream_ends_with_an_error_and_never_stops() -> None:
    chunks = FORM.chunks(HEAD, includes_usage=False)
    raw = b"".join([*chunks.opening(None), *chunks.piece(says("Hi"), None)])
    *before, last = named(raw + chunks.failed(upstream_lost("The worker was lost.")))
    assert last == {
        "type": "error",
        "error": {"type": "api_error", "message": "The worker was lost."},
        "request_id": "req_1",
    }
    ErrorResponse.model_validate(last, strict=True)
    assert not {"message_delta", "message_stop"} & {event["type"] for event in before}


def test_stream_that_waits_is_pinged_with_its_place_in_the_queue() -> None:
    assert ANTHROPIC.waiting("place 3") == b': place 3\nevent: ping\ndata: {"type":"ping"}\n\n'


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (408, "invalid_request_error"),
        (409, "conflict_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (502, "api_error"),
        (503, "overloaded_error"),
        (504, "timeout_error"),
    ],
)
def test_every_status_has_a_type_of_anthropics(status: int, kind: str) -> None:
    found = json.loads(ANTHROPIC.refusal(ApiError(status, "No."), "req_1"))
    assert found == {
        "type": "error",
        "error": {"type": kind, "message": "No."},
        "request_id": "req_1",
    }


def test_key_stands_in_either_header() -> None:
    assert ANTHROPIC.authorization({"x-api-key": "sk-1", "authorization": "Bearer sk-2"}) == (
        "Bearer sk-1"
    )
    for empty in ({}, {"x-api-key": ""}):
        assert ANTHROPIC.authorization({"authorization": "Bearer sk-2"} | empty) == "Bearer sk-2"
    assert ANTHROPIC.authorization({}) is None


def test_limits_are_told_in_anthropics_names_with_times() -> None:
    named_headers = {
        "x-request-id": "req_1",
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1m0.5s",
        "x-ratelimit-reset-input-tokens": "12ms",
        "x-ratelimit-reset-tokens": "0s",
    } | overloaded("Busy.", 2.0).headers()
    assert dict(ANTHROPIC.headers(named_headers, now_s=1700000000.0)) == {
        "x-request-id": "req_1",
        "request-id": "req_1",
        "anthropic-ratelimit-requests-limit": "60",
        "anthropic-ratelimit-requests-remaining": "59",
        "anthropic-ratelimit-requests-reset": "2023-11-14T22:14:21Z",
        "anthropic-ratelimit-input-tokens-reset": "2023-11-14T22:13:21Z",
        "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:20Z",
        "retry-after": "2",
        "retry-after-ms": "2000",
    }
