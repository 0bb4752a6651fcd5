"""Answers of `/v1/responses`: whole and streamed say the same, in the shapes clients read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.call.frame import Choice, Likely, Logprobs, Scored
from gateway.errors import upstream_lost
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.responses.body import parse_response
from gateway.wire.responses.form import ResponseForm
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
from tests.openai_api.valid import assert_valid

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TOOL = {"type": "function", "name": "tool_0", "parameters": {"type": "object"}}


def form(scored: bool = False, **fields: Any) -> ResponseForm:
    return ResponseForm({"model": "tale", "input": "Tell."} | fields, scored=scored)


def strict(response: dict[str, Any]) -> Response:
    return Response.model_validate(response, strict=True)


@given(answers())
def test_stream_ends_with_the_whole_answer(pieces: list[Choice]) -> None:
    *_, last = streamed(form(), pieces)
    assert last["response"] == whole(form(), pieces)
    assert last["type"] == f"response.{last['response']['status']}"


@given(answers())
def test_every_event_is_numbered_and_of_the_clients_shape(pieces: list[Choice]) -> None:
    events = streamed(form(), pieces)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    for event in events:
        EVENT.validate_python(event, strict=True)
        if "response" in event:
            strict(event["response"])


@given(answers())
def test_items_and_parts_are_opened_told_and_done_in_order(pieces: list[Choice]) -> None:
    """Of each item: added, told, done, before the next one begins; what was told is what it is."""
    events = streamed(form(), pieces)
    output = events[-1]["response"]["output"]
    open_item: int | None = None
    told: dict[int, str] = {}
    for event in events[2:-1]:
        place, kind = event["output_index"], event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert open_item is None
            open_item = place
            assert event["item"]["status"] == "in_progress"
        assert open_item == place
        if kind.endswith(".delta"):
            told[place] = told.get(place, "") + event["delta"]
        if kind == "output_item.done":
            assert event["item"] == output[place]
            open_item = None
    assert open_item is None
    for place, item in enumerate(output):
        said = item["arguments"] if "arguments" in item else item["content"][0]["text"]
        assert told.get(place, "") == said


def test_every_event_of_an_answer_is_one_that_openais_document_knows() -> None:
    score = Logprobs(content=[Scored("Hi", -0.5, None, [Likely("Ho", -0.1)])])
    for pieces in (
        [says("Hi", logprobs=score), calls(0, "", name="f"), calls(0, "{}", finish="tool_calls")],
        [says("Hi", "length")],
        [thinks("Hm."), thinks(" So."), says("Hi", "stop")],
        [thinks("Hm."), calls(0, "{}", name="f", finish="tool_calls")],
        [Choice(delta={"refusal": "No."}, finish_reason="content_filter")],
    ):
        found = form(scored=True, tools=[TOOL], metadata={"a": "b"}, user="somebody")
        assert_valid("Response", whole(found, pieces))
        for event in streamed(found, pieces):
            assert_valid("ResponseStreamEvent", event)
    chunks = form().chunks(HEAD, includes_usage=False)
    for event in named(chunks.failed(upstream_lost("The worker was lost."))):
        assert_valid("ResponseStreamEvent", event)


@given(answers())
def test_what_was_answered_can_be_sent_back_as_it_is(pieces: list[Choice]) -> None:
    """Nothing is kept here: it is the caller who says what was said before."""
    output = whole(form(), pieces)["output"]
    told = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "Rain."}
        for item in output
        if item["type"] == "function_call"
    ]
    asked = {"role": "user", "content": "Tell."}
    given = [asked, *output, *told, asked]
    wanted = parse_response(json.dumps({"model": "tale", "input": given}).encode()).payload
    assert isinstance(wanted, Conversation)
    thought = "".join(piece.reasoning for piece in pieces)
    assert "".join(wanted.reasoning) == thought
    sent = wanted.outside_body(9)["messages"]
    assert "".join(m.get("reasoning_content", "") for m in sent) == thought


def test_answer_repeats_what_was_asked_for() -> None:
    fields = {
        "instructions": "Be kind.",
        "metadata": {"a": "b"},
        "temperature": 0.5,
        "max_output_tokens": 9,
        "tools": [TOOL],
        "tool_choice": {"type": "function", "name": "tool_0"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "user": "somebody",
    }
    found = whole(form(**fields), [says("Hi", "stop")])
    assert strict(found).output_text == "Hi"
    assert found["tools"] == [TOOL | {"description": None, "strict": False}]
    assert {name: found[name] for name in fields if name not in ("tools", "text")} == {
        name: value for name, value in fields.items() if name not in ("tools", "text")
    }
    assert found["text"]["format"] == fields["text"]["format"]  # type: ignore[index]
    assert (found["store"], found["status"], found["error"]) == (False, "completed", None)
    assert (found["id"], found["created_at"], found["service_tier"]) == (
        "resp_1",
        1700000000,
        "default",
    )


def test_usage_is_told_in_this_routes_words_with_our_cost() -> None:
    assert whole(form(), [says("Hi", "stop")])["usage"] == {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 8,
        "cost": COST,
    }


@pytest.mark.parametrize(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        (None, "incomplete", "max_output_tokens"),
    ],
)
def test_answer_that_was_cut_short_is_incomplete(
    finish: str | None, status: str, reason: str | None
) -> None:
    found = whole(form(), [says("Hi", finish)])
    assert (found["status"], found["output"][0]["status"]) == (status, status)
    assert found["incomplete_details"] == ({"reason": reason} if reason else None)


def test_refusal_is_a_part_of_its_own() -> None:
    pieces = [Choice(delta={"refusal": "I can"}), Choice(delta={"refusal": "not."})]
    pieces.append(Choice(finish_reason="stop"))
    events = streamed(form(), pieces)
    assert events[-1]["response"] == whole(form(), pieces)
    [item] = events[-1]["response"]["output"]
    assert item["content"] == [{"type": "refusal", "refusal": "I cannot."}]
    assert "response.refusal.done" in {event["type"] for event in events}


def test_log_probabilities_come_with_their_text() -> None:
    token = Scored("Hi", -0.5, None, [Likely("Ho", -0.1, [72, 111])])
    pieces = [
        says("Hi", logprobs=Logprobs(content=[token])),
        says("", logprobs=Logprobs(content=[Scored("", -0.2, [0xE2])])),
        says("…", "stop", logprobs=Logprobs(content=[Scored("…", -0.3)])),
    ]
    events = streamed(form(scored=True), pieces)
    [item] = events[-1]["response"]["output"]
    assert item == whole(form(scored=True), pieces)["output"][0]
    scores = item["content"][0]["logprobs"]
    told = [event["logprobs"] for event in events if event["type"].endswith("text.delta")]
    assert [score for scores in told for score in scores] == scores
    assert scores[0] == {
        "token": "Hi",
        "logprob": -0.5,
        "bytes": [72, 105],
        "top_logprobs": [{"token": "Ho", "logprob": -0.1, "bytes": [72, 111]}],
    }
    assert strict(events[-1]["response"]).output_text == "Hi…"


def test_cut_stream_ends_with_an_error_event_of_the_next_number() -> None:
    chunks = form().chunks(HEAD, includes_usage=False)
    raw = b"".join([*chunks.opening(None), *chunks.piece(says("Hi"), None)])
    raw += chunks.failed(upstream_lost("The worker was lost."))
    *before, last = named(raw)
    assert last == {
        "type": "error",
        "sequence_number": len(before),
        "code": "upstream_disconnected",
        "message": "The worker was lost.",
        "param": None,
    }
    EVENT.validate_python(last, strict=True)
    assert not {"response.completed", "response.incomplete"} & {e["type"] for e in before}


def test_reason_why_money_ended_a_stream_is_in_its_last_event() -> None:
    chunks = form().chunks(HEAD, includes_usage=False)
    raw = b"".join([*chunks.opening(None), *chunks.piece(calls(0, "{", name="f"), None)])
    raw += b"".join(chunks.piece(Choice(finish_reason="length"), {"stop_reason": "budget"}))
    *_, done, last = named(raw + chunks.end(USAGE, COST, {"pool": "p"}))
    assert (last["type"], done["item"]["status"]) == ("response.incomplete", "incomplete")
    assert last["sluice"] == {"stop_reason": "budget", "pool": "p"}
