"""Tools and forms at a worker's door: what a body asks becomes a guide, and the calls in what was
generated become pieces of OpenAI's shape."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.deployments.asgi import Visit, serve
from workers.deployments.calls_made import CallReader
from workers.engines.base import FinishReason, GuideInvalid, UnsupportedParameter
from workers.engines.fake import ScriptedConstraint, ScriptedEngine, word_frames

CHAT = "/v1/chat/completions"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
TIME = {"type": "function", "function": {"name": "time", "strict": True}}
NAMED = {"type": "function", "function": {"name": "time"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}
FIRST = '<tool_call>\n{"name": "weather", "arguments": {"town": "Ulm"}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'


def body(**fields: object) -> dict[str, object]:
    return {
        "messages": [{"role": "user", "content": "one two"}],
        "sluice": {"request_id": "req_1"},
    } | fields


async def visited(engine: ScriptedEngine, **fields: object) -> Visit:
    return await Visit(serve(engine), "POST", CHAT, body(**fields)).end()


async def refused(engine: ScriptedEngine, **fields: object) -> Any:
    visit = await visited(engine, **fields)
    assert visit.status == 400
    assert not engine.requests, "nothing was admitted"
    return visit.json()["error"]


def guide(engine: ScriptedEngine) -> Any:
    [request] = engine.requests
    assert isinstance(request.constraint, ScriptedConstraint)
    return request.constraint.guide


@pytest.mark.parametrize(
    ("choice", "names", "must_call", "parallel"),
    [
        ("auto", ["weather", "time"], False, True),
        ("required", ["weather", "time"], True, True),
        (NAMED, ["time"], True, False),
        (ALLOWED, ["time"], True, True),
    ],
)
async def test_a_choice_among_tools_is_a_guide(
    choice: Any, names: list[str], must_call: bool, parallel: bool
) -> None:
    engine = ScriptedEngine(word_frames("x"))
    await visited(engine, tools=[WEATHER, TIME], tool_choice=choice)
    found = guide(engine)
    assert [tool.name for tool in found.tools] == names
    assert (found.must_call, found.parallel) == (must_call, parallel)
    assert engine.requests[0].prompt_token_ids == (3, 3, 7, 4), "told of every tool"


async def test_no_calls_at_once_and_no_tools_at_all() -> None:
    engine = ScriptedEngine(word_frames("x"))
    await visited(engine, tools=[WEATHER], parallel_tool_calls=False)
    assert not guide(engine).parallel
    engine = ScriptedEngine(word_frames("x"))
    await visited(engine, tools=[WEATHER], tool_choice="none")
    assert engine.requests[0].constraint is None
    assert engine.requests[0].prompt_token_ids == (3, 3)


async def test_a_stop_string_ends_no_call_that_has_to_be_made() -> None:
    for choice, stops in (("required", ()), ("auto", ("\n",))):
        engine = ScriptedEngine(word_frames("x"))
        await visited(engine, tools=[WEATHER], tool_choice=choice, stop="\n")
        assert engine.requests[0].stop == stops


async def test_a_response_format_is_a_guide() -> None:
    engine = ScriptedEngine(word_frames("x"))
    form = {"name": "a", "schema": {"type": "array"}, "strict": True}
    await visited(engine, response_format={"type": "json_schema", "json_schema": form})
    answer = guide(engine).answer
    assert (json.loads(answer.text), answer.lenient) == ({"type": "array"}, False)
    engine = ScriptedEngine(word_frames("x"))
    await visited(engine, response_format={"type": "json_object"}, n=2)
    assert json.loads(engine.requests[1].constraint.guide.answer.text) == {"type": "object"}  # type: ignore[union-attr]
    engine = ScriptedEngine(word_frames("x"))
    await visited(engine, response_format={"type": "text"})
    assert engine.requests[0].constraint is None


async def test_what_cannot_be_followed_is_a_400_that_names_it_before_anything_runs() -> None:
    for param, code in (
        ("tools[0].function.parameters", "invalid_function_parameters"),
        ("response_format.json_schema.schema", "invalid_json_schema"),
    ):
        engine = ScriptedEngine([], guide_refusal=GuideInvalid("no", param=param))
        error = await refused(engine, tools=[WEATHER])
        assert (error["param"], error["code"]) == (param, code)
    engine = ScriptedEngine([], guide_refusal=UnsupportedParameter("no", param="tools"))
    assert (await refused(engine, tools=[WEATHER]))["code"] == "unsupported_parameter"
    array = {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}
    error = await refused(ScriptedEngine([]), tools=[array])
    assert error["param"] == "tools[0].function.parameters"
    error = await refused(ScriptedEngine([]), tools=[WEATHER], tool_choice=NAMED)
    assert error["param"] == "tool_choice"
    assert (await refused(ScriptedEngine([]), tools=[{"type": "function"}]))["param"] == "tools"


async def test_penalties_and_biases_reach_the_engine() -> None:
    engine = ScriptedEngine(word_frames("x"))
    asked = {"presence_penalty": 0.5, "frequency_penalty": -1, "logit_bias": {"7": -100}}
    await visited(engine, **asked)
    [request] = engine.requests
    assert (request.presence_penalty, request.frequency_penalty) == (0.5, -1.0)
    assert request.logit_bias == {7: -100.0}


async def test_calls_leave_as_pieces_with_ids_that_a_repetition_has_too() -> None:
    words = ["Well. ", "<tool", FIRST[5:40], FIRST[40:] + "\n", SECOND]
    engine = ScriptedEngine(word_frames(*words))
    visits = [await visited(engine, tools=[WEATHER, TIME]) for _ in range(2)]
    first, second = ([e["choices"][0] for e in v.events()[:-1]] for v in visits)
    assert first == second
    assert "".join(each["delta"]["content"] for each in first) == "Well. "
    pieces = [piece for each in first for piece in each["delta"].get("tool_calls", ())]
    assert [p["index"] for p in pieces if "id" in p] == [0, 1]
    assert [p["function"]["name"] for p in pieces if "id" in p] == ["weather", "time"]
    assert len({p["id"] for p in pieces if "id" in p}) == 2
    arguments = ["", ""]
    for piece in pieces:
        arguments[piece["index"]] += piece["function"]["arguments"]
    assert arguments == ['{"town": "Ulm"}', "{}"]
    assert first[-1]["finish_reason"] == "tool_calls"


TWICE = FIRST + "\n" + SECOND
BEFORE_MARK = FIRST.index("\n</tool_call>")


@pytest.mark.parametrize(
    ("text", "finish"),
    [
        (FIRST, "tool_calls"),
        (FIRST + "\n", "tool_calls"),
        (TWICE, "tool_calls"),
        ("Well. " + FIRST, "tool_calls"),
        (FIRST[:BEFORE_MARK], "tool_calls"),
        (FIRST[: BEFORE_MARK - 1], "tool_calls"),
        (FIRST[: BEFORE_MARK - 2], "length"),
        (FIRST[:30], "length"),
        (FIRST + "\n<tool_c", "length"),
        (FIRST + "\n" + SECOND[:20], "length"),
        (FIRST + "\nSo", "length"),
        ("Well.", "length"),
    ],
)
async def test_an_answer_that_was_cut_behind_whole_calls_has_called(text: str, finish: str) -> None:
    frame = replace(word_frames(text)[0], finish_reason=FinishReason.LENGTH)
    visit = await visited(ScriptedEngine([frame]), tools=[WEATHER, TIME], tool_choice="required")
    [said] = [event["choices"][0] for event in visit.events()[:-1]]
    assert said["finish_reason"] == finish
    indexes = [piece["index"] for piece in said["delta"].get("tool_calls", ())]
    assert len(set(indexes)) == len(indexes)


async def test_text_alone_ends_as_ever() -> None:
    engine = ScriptedEngine(word_frames("No <tool", " call."))
    visit = await visited(engine, tools=[WEATHER])
    said = [event["choices"][0] for event in visit.events()[:-1]]
    assert "".join(each["delta"]["content"] for each in said) == "No <tool call."
    assert said[-1]["finish_reason"] == "stop"


# --- the reader ---------------------------------------------------------------------------------

said_texts = st.text("a<tool_c>\n {", max_size=20).filter(lambda t: "<tool_call>" not in t)
values = st.recursive(
    st.text(max_size=12) | st.integers() | st.just("}\n</tool_call>") | st.just("<tool_call>"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
made = st.lists(
    st.tuples(
        st.sampled_from(["a", "weather", "x-1"]), st.dictionaries(st.text(max_size=5), values)
    ),
    max_size=3,
)


@given(said_texts, made, said_texts, st.lists(st.integers(0, 400), max_size=30))
def test_any_cut_of_the_text_gives_the_same_calls(
    before: str, calls: list[tuple[str, Any]], after: str, cuts: list[int]
) -> None:
    written = [json.dumps(arguments) for _, arguments in calls]
    marked = [
        f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        for (name, _), arguments in zip(calls, written, strict=True)
    ]
    whole = before + "\n".join(marked) + after
    places = [0, *sorted(c for c in cuts if c < len(whole)), len(whole)]
    reader = CallReader("r", 0)
    said = [reader.read(whole[a:b]) for a, b in pairwise(places)]
    said.append(reader.close())
    for each in said:
        assert len({piece.index for piece in each.calls}) == len(each.calls), "one piece a call"
    found: dict[int, list[str]] = {}
    for piece in [piece for each in said for piece in each.calls]:
        assert (piece.name is None) == (piece.id is None) == (piece.index in found)
        found.setdefault(piece.index, [piece.name or "", ""])[1] += piece.arguments
    assert list(found.values()) == [[n, w] for (n, _), w in zip(calls, written, strict=True)]
    text = "".join(each.text for each in said)
    assert text.strip() == (before + after).strip() if calls else text == before + after


@given(st.text('<tool_call>\n{"name: argumnts}/', max_size=60), st.integers(1, 7))
def test_what_only_looks_like_a_call_is_text(text: str, size: int) -> None:
    reader = CallReader("r", 0)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    said = [*map(reader.read, pieces), reader.close()]
    if not reader.made and not text.rstrip().endswith("{") and "<tool_call>" not in text:
        assert "".join(each.text for each in said) == text


@pytest.mark.parametrize("kept", range(len(FIRST)))
def test_a_call_that_is_cut_has_no_more_than_was_said(kept: int) -> None:
    reader = CallReader("r", 0)
    said = [reader.read(FIRST[:kept]), reader.close()]
    arguments = "".join(piece.arguments for each in said for piece in each.calls)
    assert '{"town": "Ulm"}'.startswith(arguments)


def test_json_may_hold_what_looks_like_a_call() -> None:
    reader = CallReader("r", 0, free=False)
    text = json.dumps({"a": FIRST})
    said = [*map(reader.read, text), reader.close()]
    assert "".join(each.text for each in said) == text
    assert not reader.made
