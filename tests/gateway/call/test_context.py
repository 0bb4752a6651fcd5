"""Which models a call fits into, and what is left for its output."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.context import room_for
from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from routing.types import Model

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


def test_refusal_counts_the_prompt_and_the_output_that_was_asked_for() -> None:
    with pytest.raises(ApiError) as refused:
        room_for(completion(16), [NARROW], {"narrow": [60, 2]})
    assert "76 tokens (60 in 'prompt[0]', 16 in the completion)" in refused.value.message


def test_refusal_of_who_named_no_output_counts_none() -> None:
    said = {"model": "auto", "messages": [{"role": "user", "content": "a"}]}
    with pytest.raises(ApiError) as refused:
        room_for(parse_chat(json.dumps(said).encode()), [NARROW], {"narrow": [64]})
    assert "64 tokens (64 in 'messages', 0 in the completion)" in refused.value.message


def test_who_names_no_output_has_what_every_model_that_fits_has_left() -> None:
    said = {"model": "auto", "messages": [{"role": "user", "content": "a"}]}
    room = room_for(parse_chat(json.dumps(said).encode()), [NARROW, WIDE], both(63))
    assert (room.models, room.output_tokens_each) == ((NARROW, WIDE), 1)


def test_text_to_embed_may_fill_the_whole_context() -> None:
    assert room_for(EMBEDDING, [NARROW], {"narrow": [64, 1]}).output_tokens_each == 0
    with pytest.raises(ApiError) as refused:
        room_for(EMBEDDING, [NARROW], {"narrow": [1, 65]})
    assert refused.value.param == "input[1]"
    assert "completion" not in refused.value.message
