"""Pieces of answers as `/v1/responses` and `/v1/messages` get them, and what a stream makes of
them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from billing.types import Usage
from gateway.call.frame import Choice
from gateway.wire.answer import AnswerHead, StreamableForm
from gateway.wire.whole_choice import WholeChoice

HEAD = AnswerHead("1", 1700000000, "tale", "default", Usage(input=2, cached_input=1))
USAGE = Usage(input=2, cached_input=1, output=5)
COST = "0.001"


def says(text: str, finish: str | None = None, **rest: Any) -> Choice:
    return Choice(delta={"content": text}, finish_reason=finish, **rest)


def thinks(text: str) -> Choice:
    """As servers outside say it, by either name."""
    return Choice(delta={"reasoning" if len(text) % 2 else "reasoning_content": text})


def calls(
    index: int, arguments: str, *, name: str | None = None, finish: str | None = None
) -> Choice:
    """A piece of the call number `index`; a `name` begins it."""
    piece: dict[str, Any] = {"index": index, "function": {"arguments": arguments}}
    if name is not None:
        piece |= {"id": f"call_{index}", "type": "function"}
        piece["function"]["name"] = name
    return Choice(delta={"tool_calls": [piece]}, finish_reason=finish)


@st.composite
def answers(draw: st.DrawFn) -> list[Choice]:
    """Reasoning, text, then calls of functions, each in pieces, and a reason to stop."""
    texts = st.lists(st.sampled_from(["", "Once", " upon", " a\n\n", "time…"]), max_size=4)
    pieces = [thinks(text) for text in draw(texts)] + [says(text) for text in draw(texts)]
    for index in range(draw(st.integers(0, 2))):
        pieces.append(calls(index, "", name=f"tool_{index}"))
        sent = draw(st.sampled_from([["{}"], ["{", '"a"', ": 1}"], ['{"a": "\\u00e9"}']]))
        pieces += [calls(index, part) for part in sent]
    reason = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"]))
    if draw(st.booleans()):
        return [*pieces, Choice(finish_reason=reason)]
    return pieces  # cut short by money


def whole(form: StreamableForm, pieces: Iterable[Choice]) -> dict[str, Any]:
    gathered = WholeChoice(0)
    for piece in pieces:
        gathered.add(piece)
    found: dict[str, Any] = json.loads(form.whole(HEAD, [gathered], USAGE, COST))
    return found


def streamed(form: StreamableForm, pieces: Sequence[Choice]) -> list[dict[str, Any]]:
    """Every event's data; its name is its type."""
    chunks = form.chunks(HEAD, includes_usage=False)
    raw = b"".join(chunks.opening({"pool": "p"}))
    for piece in pieces:
        raw += b"".join(chunks.piece(piece, None))
    raw += chunks.end(USAGE, COST, {"pool": "p"})
    return named(raw)


def named(raw: bytes) -> list[dict[str, Any]]:
    found = []
    for block in raw.decode().split("\n\n")[:-1]:
        event, _, data = block.partition("\n")
        said = json.loads(data.removeprefix("data: "))
        assert event == f"event: {said['type']}"
        found.append(said)
    return found
