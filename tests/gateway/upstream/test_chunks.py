"""What servers outside say of the end of an answer, in OpenAI's words or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.types import Usage
from gateway.call.frame import Choice
from gateway.catalog.tokenizers import OVERHEAD_TOKENS, ByteBound
from gateway.upstream.answer import Cut
from gateway.upstream.chunks import FINISH_REASONS, SYNONYMS, read_answer, read_chunk
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.chat import ChatForm, parse_chat
from gateway.wire.bodies.completions import CompletionForm
from gateway.wire.whole_choice import WholeChoice
from tests.openai_api.valid import assert_valid

HEAD = AnswerHead("1", 1, "m", "default")
ENDED_OTHERWISE = ("abort", "error", "cancelled", "insufficient_system_resource", "load", "STOP")


def streamed(reason: object, **delta: object) -> Choice:
    payload = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    [choice] = read_chunk(json.dumps(payload).encode()).choices
    return choice


def whole(reason: object, **more: object) -> Choice:
    message = {"role": "assistant", "content": "Once."}
    choice = {"index": 0, "message": message, "finish_reason": reason} | more
    [found] = read_answer(json.dumps({"choices": [choice]}).encode(), 1).choices
    return found


def chunks(choice: Choice, form: Any = ChatForm(1, scored=False)) -> list[dict[str, Any]]:  # noqa: B008
    return [json.loads(e[6:]) for e in form.chunks(HEAD, False).piece(choice, None)]


@pytest.mark.parametrize("reason", ENDED_OTHERWISE)
def test_answer_that_was_ended_by_something_else_is_cut(reason: str) -> None:
    """Law 9: neither `[DONE]` nor a whole answer follows, and it is tried again elsewhere."""
    with pytest.raises(Cut, match=reason):
        streamed(reason)
    with pytest.raises(Cut, match=reason):
        whole(reason)


@given(st.text())
def test_any_end_is_one_of_openais_or_none_at_all(reason: str) -> None:
    for read in (streamed, whole):
        try:
            found = read(reason).finish_reason
        except Cut:
            assert reason not in FINISH_REASONS | SYNONYMS.keys()
            continue
        assert found == (reason if reason in FINISH_REASONS else SYNONYMS[reason])


@pytest.mark.parametrize("reason", [None, "", *SYNONYMS, *sorted(FINISH_REASONS)])
def test_whatever_is_taken_leaves_as_the_document_has_it(reason: str | None) -> None:
    choice = streamed(reason, content="Once")
    text = CompletionForm(("",), scored=False)
    for chunk in chunks(choice):
        assert_valid("CreateChatCompletionStreamResponse", chunk)
    for chunk in chunks(choice, text):
        assert_valid("CreateCompletionResponse", chunk)
    gathered = WholeChoice(0)
    gathered.add(choice)
    for form, name in ((ChatForm(1, False), "Chat"), (text, "")):
        answer = json.loads(form.whole(HEAD, [gathered], Usage(), "0"))
        assert_valid(f"Create{name}CompletionResponse", answer)


def test_an_empty_reason_is_none_yet_in_a_stream() -> None:
    assert streamed("", content="Once").finish_reason is None
    assert streamed(None, content="Once").finish_reason is None


def test_whole_answer_says_which_stop_string_ended_it_as_its_stream_does() -> None:
    assert whole("stop", stop_reason="END").stop_reason == "END"


def test_pieces_of_calls_leave_without_nulls() -> None:
    """SGLang says null for what a piece has no more to say of."""
    first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f"}}
    further = {"index": 0, "id": None, "type": "function", "function": {"name": None, "x": 1}}
    further["function"] |= {"arguments": "{}"}
    form = ChatForm(1, scored=False).chunks(HEAD, False)
    told = []
    for piece in (first, further):
        [event] = form.piece(streamed(None, tool_calls=[piece]), None)
        assert_valid("CreateChatCompletionStreamResponse", chunk := json.loads(event[6:]))
        told += chunk["choices"][0]["delta"]["tool_calls"]
    named = first | {"function": {"name": "f", "arguments": ""}}
    assert told == [named, {"index": 0, "function": {"arguments": "{}"}}]


@pytest.mark.parametrize("said", [5, ["no"], {"a": 1}])
@pytest.mark.parametrize("name", ["refusal", "reasoning_content", "reasoning"])
def test_words_that_are_no_text_are_cut(name: str, said: object) -> None:
    with pytest.raises(Cut, match=name):
        streamed(None, **{name: said})


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_reaches_callers_whole_and_streamed_and_may_be_sent_back(name: str) -> None:
    """It is paid for, so it is told; and clients append an answer's message as it is."""
    piece = streamed(None, **{name: "Hm.", "reasoning_details": [{"text": "Hm."}]})
    [chunk] = chunks(piece)
    assert_valid("CreateChatCompletionStreamResponse", chunk)
    assert chunk["choices"][0]["delta"] == {"reasoning_content": "Hm."}
    assert piece.has_text
    found = WholeChoice(0)
    found.add(whole("stop", message={"content": "Hi", name: "Hm."}))
    answer = json.loads(ChatForm(1, False).whole(HEAD, [found], Usage(), "0"))
    assert_valid("CreateChatCompletionResponse", answer)
    message = answer["choices"][0]["message"]
    assert message["reasoning_content"] == "Hm."
    asked = {"role": "user", "content": "And now?"}
    again = {"model": "m", "messages": [asked, message, asked]}
    wanted = parse_chat(json.dumps(again).encode()).payload
    said = {"role": "assistant", "content": "Hi"}
    assert wanted.own_body(9)["messages"][1] == said, "no model of ours takes it"
    assert wanted.outside_body(9)["messages"][1] == said | {"reasoning_content": "Hm."}
    unthought = [asked, said, asked]
    plain = parse_chat(json.dumps(again | {"messages": unthought}).encode()).payload
    counted, without = (each.prompt_tokens(ByteBound())[0] for each in (wanted, plain))
    assert counted == without + len("Hm.") + OVERHEAD_TOKENS


def test_words_that_nobody_knows_stay_here() -> None:
    piece = streamed(None, content="Hi", audio={"id": "a"}, function_call={"name": "f"}, x=1)
    [chunk] = chunks(piece)
    assert chunk["choices"][0]["delta"] == {"content": "Hi"}
