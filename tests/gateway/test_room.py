"""Which models a call fits into, and what is left for its output."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.room import CHARACTERS_PER_TOKEN_MAX, prompts_by_model, room_for
from gateway.tokens import ByteBound
from gateway.wire.chat import parse_chat
from gateway.wire.completions import parse_completion
from gateway.wire.embeddings import parse_embedding
from gateway.wire.request import GeneratingRequest, Wanted
from routing.types import Model
from workers.templates import Message, ToolsUnsupported

NARROW = Model("narrow", None, 64, 32, 1, 0.4)
WIDE = Model("wide", None, 512, 256, 2, 0.8)


def completion(max_tokens: int | None = 16) -> GeneratingRequest:
    body = {"model": "auto", "prompt": ["a", "b"], "max_tokens": max_tokens}
    return parse_completion(json.dumps(body).encode(), lambda model, ids: "")


EMBEDDING = parse_embedding(b'{"model":"auto","input":["a","b"]}')


def _longest(counts: list[int]) -> str:
    return f"prompt[{counts.index(max(counts))}]" if len(counts) > 1 else "prompt"


def both(*counts: int) -> dict[str, list[int]]:
    return {"narrow": list(counts), "wide": list(counts)}


@given(st.lists(st.integers(1, 600), min_size=1, max_size=4), st.integers(1, 300))
def test_longest_prompt_with_its_output_fits_every_model_that_is_left(
    counts: list[int], max_tokens: int
) -> None:
    try:
        room = room_for(completion(max_tokens), [NARROW, WIDE], both(*counts))
    except ApiError as refused:
        if max(counts) + max_tokens > WIDE.context_tokens:
            assert (refused.code, refused.param) == ("context_length_exceeded", _longest(counts))
        else:
            assert (max_tokens > 256, refused.param) == (True, "max_tokens")
            assert f"large: {max_tokens}." in refused.message and " 256 " in refused.message
    else:
        assert room.output_tokens_each == max_tokens
        assert all(max(counts) + max_tokens <= m.context_tokens for m in room.models)


def test_model_that_is_too_narrow_is_left_out() -> None:
    assert room_for(completion(), [NARROW, WIDE], both(10, 60)).models == (WIDE,)
    assert room_for(completion(), [NARROW, WIDE], both(10, 48)).models == (NARROW, WIDE)


def test_text_to_embed_may_fill_the_whole_context() -> None:
    assert room_for(EMBEDDING, [NARROW], {"narrow": [64, 1]}).output_tokens_each == 0
    with pytest.raises(ApiError) as refused:
        room_for(EMBEDDING, [NARROW], {"narrow": [1, 65]})
    assert refused.value.param == "input[1]"
    assert "completion" not in refused.value.message


class KnowsNoTools(ByteBound):
    def count(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> int:
        if tools:
            raise ToolsUnsupported("no", "tools")
        return super().count(messages)


def test_model_that_knows_no_tools_is_passed_over_as_long_as_another_does() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    said = [{"role": "user", "content": "x"}]
    body = {"model": "auto", "messages": said, "tools": [tool]}
    wanted = parse_chat(json.dumps(body).encode()).wanted
    counters = {"narrow": KnowsNoTools(), "wide": ByteBound()}
    assert list(prompts_by_model([NARROW, WIDE], counters, wanted, 0)) == ["wide"]
    with pytest.raises(ApiError) as caught:
        prompts_by_model([NARROW], counters, wanted, 0)
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_parameter")
    plain = parse_chat(json.dumps(body | {"tools": None}).encode()).wanted
    assert len(prompts_by_model([NARROW, WIDE], counters, plain, 0)) == 2


class CountsNothing(ByteBound):
    def count(self, messages: Sequence[Message], tools: Sequence[Message] = ()) -> int:
        raise AssertionError("it takes seconds to count so much")

    def count_text(self, text: str) -> int:
        raise AssertionError("it takes seconds to count so much")


FAR = "x" * (NARROW.context_tokens * CHARACTERS_PER_TOKEN_MAX + 1)
SAID = [{"role": "user", "content": FAR[:9]}, {"role": "user", "content": FAR[9:]}]
FAR_BEYOND = [
    parse_chat(json.dumps({"model": "m", "messages": SAID}).encode()),
    parse_completion(json.dumps({"model": "m", "prompt": ["x", FAR]}).encode(), lambda *_: ""),
    parse_embedding(json.dumps({"model": "m", "input": ["x", FAR]}).encode()),
]


@pytest.mark.parametrize("wanted", [each.wanted for each in FAR_BEYOND], ids=lambda w: w.param)
def test_what_is_far_beyond_the_context_is_not_even_counted(wanted: Wanted) -> None:
    with pytest.raises(ApiError) as caught:
        prompts_by_model([NARROW], {"narrow": CountsNothing()}, wanted, len(FAR))
    assert (caught.value.param, caught.value.code) == (wanted.param, "context_length_exceeded")
    with pytest.raises(AssertionError):
        prompts_by_model([WIDE], {"wide": CountsNothing()}, wanted, len(FAR))
