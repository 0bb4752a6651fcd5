"""Calls of tools in any pieces: what leaves adds up to the whole answer, by every route and as the
clients themselves add it up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletionChunk

from billing.types import Usage
from gateway.call.frame import Choice
from gateway.wire.answer import AnswerHead
from gateway.wire.anthropic.form import MessageForm
from gateway.wire.bodies.chat import ChatForm
from gateway.wire.call_pieces import CallPieces
from gateway.wire.responses.form import ResponseForm
from gateway.wire.whole_choice import WholeChoice

HEAD = AnswerHead("1", 1_790_000_000, "tale", "default")
USED = Usage(input=3, output=2)
Json = dict[str, Any]
Made = tuple[list[Json], list[Choice]]


@st.composite
def chunks(draw: st.DrawFn) -> Made:
    """Calls, and the chunks that a server sends of them: any number of pieces, some of them in one
    chunk, ids and names repeated or late, numbers that do not begin at 0, text before."""
    names = draw(st.lists(st.sampled_from(["weather", "time", "x-1"]), max_size=4))
    values = st.dictionaries(st.text(max_size=4), st.text(max_size=9) | st.integers(), max_size=3)
    calls, pieces = [], []
    first = draw(st.integers(0, 3))
    for number, name in enumerate(names):
        arguments = json.dumps(draw(values))
        calls.append(call(f"call_{number}", name, arguments))
        pieces += draw(splits(first + number, f"call_{number}", name, arguments))
    grouped: list[list[Json]] = [[]]
    for piece in pieces:
        if draw(st.booleans()):
            grouped.append([])
        grouped[-1].append(piece)
    spoken = draw(st.sampled_from(["", "So. "]))
    said = [_choice(group, "" if place else spoken) for place, group in enumerate(grouped)]
    ended = "tool_calls" if calls else "stop"
    if said and draw(st.booleans()):
        said[-1] = Choice(delta=said[-1].delta, finish_reason=ended)
    else:
        said.append(Choice(delta={"content": ""}, finish_reason=ended))
    return calls, said


@st.composite
def splits(draw: st.DrawFn, index: int, call_id: str, name: str, arguments: str) -> list[Json]:
    cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=5)))
    ends = [*cuts, len(arguments)]
    texts = [arguments[a:b] for a, b in zip([0, *cuts], ends, strict=True)]
    named_at = draw(st.integers(0, len(texts) - 1))
    repeats = draw(st.booleans())
    found = []
    for place, text in enumerate(texts):
        function: Json = {"arguments": text}
        if place == named_at or (repeats and place > named_at):
            function["name"] = name
        piece: Json = {"index": index, "function": function}
        if place == 0 or repeats:
            piece |= {"id": call_id, "type": "function"}
        found.append(piece)
    return found


def _choice(pieces: list[Json], text: str) -> Choice:
    delta: dict[str, object] = {"role": "assistant", "content": text}
    return Choice(delta=delta | {"tool_calls": pieces} if pieces else delta)


def call(call_id: str, name: str, arguments: str) -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def events(raws: Sequence[bytes]) -> Iterator[Json]:
    for line in b"".join(raws).decode().split("\n"):
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def gathered(said: Sequence[Choice]) -> WholeChoice:
    found = WholeChoice(0)
    for choice in said:
        found.add(choice)
    return found


@given(chunks())
def test_pieces_add_up_to_the_calls_and_none_is_said_twice(
    made: Made,
) -> None:
    calls, said = made
    pieces, begun = CallPieces(), 0
    texts: dict[int, str] = {}
    for choice in said:
        told = pieces.next(choice)
        assert len({piece.index for piece in told}) == len(told)
        for piece in told:
            is_first = piece.index not in texts
            assert is_first == (piece.index == begun), "numbered as they begin"
            begun += is_first
            assert bool(piece.id) == bool(piece.name) == is_first
            texts[piece.index] = texts.get(piece.index, "") + piece.arguments
    assert list(texts.values()) == [each["function"]["arguments"] for each in calls]
    assert list(gathered(said).tool_calls) == calls


@given(chunks())
def test_chat_chunks_add_up_as_openais_client_adds_them(
    made: Made,
) -> None:
    calls, said = made
    form = ChatForm(1, scored=False).chunks(HEAD, False)
    raws = [*form.opening(None), *(raw for choice in said for raw in form.piece(choice, None))]
    state: ChatCompletionStreamState[None] = ChatCompletionStreamState()
    for event in events(raws):
        [choice] = event["choices"]
        pieces = choice["delta"].get("tool_calls", [])
        assert len({piece["index"] for piece in pieces}) == len(pieces)
        assert all(piece.keys() <= {"index", "id", "type", "function"} for piece in pieces)
        list(state.handle_chunk(ChatCompletionChunk.model_validate(event, strict=True)))
    message = state.get_final_completion().choices[0].message
    found = [
        each.model_dump(include={"id", "type", "function"}) for each in message.tool_calls or ()
    ]
    for each in found:
        each["function"].pop("parsed_arguments", None)
    assert found == calls
    assert (message.content or "") == gathered(said).text


@given(chunks())
def test_response_events_add_up_to_the_whole_response(
    made: Made,
) -> None:
    calls, said = made
    form = ResponseForm({}, scored=False)
    stream = form.chunks(HEAD, False)
    raws = [raw for choice in said for raw in stream.piece(choice, None)]
    found = list(events([*raws, stream.end(USED, "0.1", {})]))
    deltas: dict[str, str] = {}
    for event in found:
        if event["type"] == "response.function_call_arguments.delta":
            deltas[event["item_id"]] = deltas.get(event["item_id"], "") + event["delta"]
    items = [e["item"] for e in found if e["type"] == "response.output_item.done"]
    done = [item for item in items if item["type"] == "function_call"]
    assert [call(i["call_id"], i["name"], i["arguments"]) for i in done] == calls
    assert [deltas.get(item["id"], "") for item in done] == [i["arguments"] for i in done]


@given(chunks())
def test_message_events_add_up_to_the_whole_message(
    made: Made,
) -> None:
    calls, said = made
    stream = MessageForm(stops=()).chunks(HEAD, False)
    blocks: dict[int, Json] = {}
    raws = [raw for choice in said for raw in stream.piece(choice, None)]
    for event in events([*raws, stream.end(USED, "0.1", {})]):
        if event["type"] == "content_block_start":
            blocks[event["index"]] = event["content_block"] | {"json": ""}
        elif event.get("delta", {}).get("type") == "input_json_delta":
            blocks[event["index"]]["json"] += event["delta"]["partial_json"]
    uses = [block for block in blocks.values() if block["type"] == "tool_use"]
    assert [call(use["id"], use["name"], use["json"]) for use in uses] == calls
