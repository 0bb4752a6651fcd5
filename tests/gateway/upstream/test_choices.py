"""Answers of several choices, and vectors: however they come, they are read the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.types import Usage
from gateway.call.frame import Frame
from gateway.call.meter import Meter
from gateway.upstream import fake, openai
from gateway.upstream.answer import Cut
from gateway.upstream.openai import OpenAIUpstream, Patience, Target
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.completions import CompletionForm
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.upstream.conftest import frames_of, one_adapter

HEAD = AnswerHead("1", 0, "tale", "default")
PROMPT = 10
PATIENCE = Patience(0.5, 0.5)


async def talk(
    upstream: OpenAIUpstream, address: str, choices: int, embeds: bool = False
) -> list[Frame]:
    target = Target(
        f"{address}/v1/completions", {}, b"{}", choices=choices, embeds=embeds, patience=PATIENCE
    )
    async with asyncio.timeout(30):
        async with await upstream.open(target) as answer:
            return await frames_of(answer)


def read(script: fake.Script, choices: int) -> list[Frame]:
    async def reading() -> list[Frame]:
        async with fake.FakeUpstream(lambda _: script) as server, one_adapter() as upstream:
            return await talk(upstream, server.address, choices)

    return asyncio.run(reading())


def events(
    words: Sequence[Sequence[str]], pick: Callable[[Sequence[int]], int], *, plain: bool
) -> bytes:
    """The events of several choices; `pick` says whose is next."""
    left = {index: list(said) for index, said in enumerate(words)}
    output = 0
    found = []
    while left:
        index = pick(sorted(left))
        word = left[index].pop(0)
        finish = None if left[index] else "stop"
        output += bool(word)
        if plain:
            found.append(fake.plain_text(word, finish, index))
        else:
            found.append(
                fake.own_frame(word, output, finish=finish, index=index, tokens=word.split())
            )
        if finish:
            del left[index]
    usage = [fake.plain_usage(PROMPT, output)] if plain else []
    return b"".join([*found, *usage, fake.DONE])


def answered(frames: list[Frame], choices: int) -> tuple[dict[str, Any], Usage]:
    meter = Meter(PROMPT, choices)
    gathered = [WholeChoice(index) for index in range(choices)]
    for frame in frames:
        assert meter.output_with(frame) <= meter.usage.output + 1, "never more than has come"
        meter.observe(frame, 0.0)
        for choice in frame.choices:
            gathered[choice.index].add(choice)
    assert meter.is_complete
    form = CompletionForm(("",) * choices, scored=True)
    return json.loads(form.whole(HEAD, gathered, meter.usage, "0")), meter.usage


@settings(max_examples=40)
@given(
    words=st.lists(
        st.lists(st.sampled_from(["", "once ", "é", "\U0001f600 "]), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    ),
    order=st.randoms(use_true_random=False),
    places=st.lists(st.integers(1, 3000), max_size=20),
    plain=st.booleans(),
)
def test_any_interleaving_under_any_cut_of_the_bytes_gives_the_same_answer_and_usage(
    words: list[list[str]], order: Random, places: list[int], plain: bool
) -> None:
    """The reference: one choice after the other, in one piece."""
    in_turn = fake.stream(events(words, min, plain=plain))
    mixed = fake.Script(fake.cut_into(events(words, order.choice, plain=plain), places))
    expected, used = answered(read(in_turn, len(words)), len(words))
    assert answered(read(mixed, len(words)), len(words)) == (expected, used)
    assert [c["text"] for c in expected["choices"]] == ["".join(said) for said in words]
    assert used == Usage(input=PROMPT, output=sum(bool(word) for said in words for word in said))


A, B = fake.own_frame("a", 1, finish="stop"), fake.own_frame("b", 2, finish="stop", index=1)
INCOMPLETE = {
    "done before the second has finished": fake.stream(A, fake.DONE),
    "an end before the second has finished": fake.stream(A),
    "the first twice": fake.stream(A, A, fake.DONE),
    "a choice nobody asked for": fake.stream(A, B, fake.own_frame("c", 3, index=2), fake.DONE),
    "a choice below zero": fake.stream(fake.own_frame("c", 3, index=-1)),
    "tokens of another kind": fake.stream(
        fake.event({"choices": [{"text": "a", "logprobs": {"content": [{"token": 5}]}}]})
    ),
    "a byte that is none": fake.stream(
        fake.event({"choices": [{"logprobs": {"content": [fake.scored("a") | {"bytes": [256]}]}}]})
    ),
    "text that is none": fake.stream(fake.event({"choices": [{"text": ["a"]}]})),
}


@pytest.mark.parametrize("script", INCOMPLETE.values(), ids=INCOMPLETE.keys())
async def test_answer_is_cut_unless_every_choice_has_finished(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, script: fake.Script
) -> None:
    server.scripts.append(script)
    with pytest.raises(Cut):
        await talk(upstream, server.address, 2)


async def test_choices_may_come_together_in_one_event(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    both = [{"index": i, "delta": {"content": "x"}, "finish_reason": "stop"} for i in (1, 0)]
    server.scripts.append(fake.stream(fake.own_event(both, 10, 0, 2), fake.DONE))
    [frame] = await talk(upstream, server.address, 2)
    assert frame.texts == 2


# --- vectors --------------------------------------------------------------------------------------

VECTOR = [0.25, -1.0]


async def test_vectors_of_own_workers_come_batch_by_batch(
    upstream: OpenAIUpstream, server: fake.FakeUpstream
) -> None:
    batches = [fake.own_vectors({1: VECTOR, 2: VECTOR}, 7), fake.own_vectors({0: VECTOR}, 9)]
    server.scripts.append(fake.stream(*batches, fake.DONE))
    frames = await talk(upstream, server.address, 3, embeds=True)
    assert [choice.index for frame in frames for choice in frame.choices] == [1, 2, 0]
    assert frames[-1].usage == Usage(input=9)
    assert frames[0].choices[0].embedding == fake.base64_of(VECTOR), "untouched"


@pytest.mark.parametrize("said", [VECTOR, fake.base64_of(VECTOR)], ids=["numbers", "base64"])
async def test_document_of_a_server_outside_is_one_frame(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, said: Any
) -> None:
    server.scripts.append(fake.plain_vectors([said, said], 9))
    [frame] = await talk(upstream, server.address, 2, embeds=True)
    assert [choice.embedding for choice in frame.choices] == [fake.base64_of(VECTOR)] * 2
    assert frame.usage == Usage(input=9)


BROKEN = {
    "one too few": fake.plain_vectors([VECTOR], 9),
    "one too many": fake.plain_vectors([VECTOR] * 3, 9),
    "no base64": fake.plain_vectors([VECTOR, "?"], 9),
    "half a number": fake.plain_vectors([VECTOR, "AAAA"], 9),
    "an empty one": fake.plain_vectors([VECTOR, []], 9),
    "words": fake.plain_vectors([VECTOR, ["a"]], 9),
    "numbers beyond float32": fake.plain_vectors([VECTOR, [1e39]], 9),
    "negative usage": fake.plain_vectors([VECTOR] * 2, -9),
    "no document": fake.Script([fake.Send(b"<html>")]),
    "half a document": fake.Script([fake.Send(b'{"data":['), fake.Close()], headers=()),
    "a document that never ends": fake.Script([fake.Send(b'{"data":['), fake.Stall()], headers=()),
    "text where vectors were asked for": fake.stream(A, B, fake.DONE),
    "output where vectors were asked for": fake.stream(
        fake.own_event(
            [{"index": i, "embedding": "AACAPw==", "finish_reason": "stop"} for i in (0, 1)],
            9,
            0,
            1,
        ),
        fake.DONE,
    ),
}


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN.keys())
async def test_whatever_is_not_every_vector_is_cut(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, script: fake.Script
) -> None:
    server.scripts.append(script)
    with pytest.raises(Cut):
        await talk(upstream, server.address, 2, embeds=True)


async def test_document_beyond_the_bound_is_not_read_to_its_end(
    upstream: OpenAIUpstream, server: fake.FakeUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai, "DOCUMENT_BYTES_MAX", 1000)
    server.scripts.append(fake.Script([*[fake.Send(b" " * 900)] * 2, fake.Stall()], headers=()))
    with pytest.raises(Cut, match="larger than any document"):
        await talk(upstream, server.address, 1, embeds=True)
