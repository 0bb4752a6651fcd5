"""Guards two laws. Whatever is drawn, a finished answer has its form: for any schema here and any
logits. And the odds are OpenAI's: biases and penalties by its formula, log probabilities the
model's own."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.engines.conftest import MODEL_PATH, Ask
from workers.deployments.calls_made import CallReader
from workers.engines.base import FinishReason, GenerationRequest, GuideInvalid
from workers.engines.continuous.checkpoint import Checkpoint, tokenizer_source
from workers.engines.continuous.sampling import next_tokens
from workers.engines.continuous.sequence import RunningSequence
from workers.engines.continuous.shaping import shaped
from workers.engines.forms import Guide, Schema
from workers.engines.guides import Compiled, Guides

CONTEXT = 800

names = st.sampled_from(["a", "town", "ünï", "x y", 'q"uote', "back\\slash", "<|end|>", ""])
scalars = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "maxLength": 5},
        {"type": "string", "pattern": "^[a-c]{2,4}$"},
        {"type": "string", "format": "date"},
        {"type": "integer"},
        {"type": "integer", "minimum": -3, "maximum": 12},
        {"type": "number", "minimum": 0, "maximum": 1},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": ["string", "null"]},
        {"const": "<tool_call>"},
        {"enum": ["x", 5, None, True, {"k": [1]}]},
    ]
)


def _object(properties: dict[str, Any], required: list[str], more: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in required if name in properties],
        "additionalProperties": more,
    }


objects = st.deferred(
    lambda: st.builds(
        _object,
        st.dictionaries(names, schemas, max_size=3),
        st.lists(names, unique=True, max_size=3),
        st.booleans(),
    )
)
schemas: st.SearchStrategy[dict[str, Any]] = st.deferred(
    lambda: (
        scalars
        | objects
        | st.builds(
            lambda items, most: {"type": "array", "items": items, "maxItems": most},
            schemas,
            st.integers(0, 3),
        )
        | st.builds(lambda either: {"anyOf": either}, st.lists(schemas, min_size=1, max_size=3))
    )
)


@pytest.fixture(scope="module")
def guides(checkpoint: Checkpoint) -> Guides:
    return Guides(
        lambda: tokenizer_source(MODEL_PATH),
        vocabulary=checkpoint.vocabulary,
        eos_token_ids=checkpoint.eos_token_ids,
    )


def compiled(guides: Guides, guide: Guide) -> Compiled:
    return guides._compile(guide)  # what `compiled` does on its thread


def answered(
    checkpoint: Checkpoint, form: Compiled, seed: int, tokens_max: int, *, ends: bool = True
) -> tuple[str, FinishReason]:
    """What a model of chance says under the form: any token is as likely as any other, but ends and
    what closes something are likelier, so that some answers end; or unlikelier, without `ends`."""
    sequence = RunningSequence(
        GenerationRequest("r", (5,), seed=seed, tokens_max=tokens_max),
        context_tokens=max(CONTEXT, tokens_max + 2),
        eos_token_ids=checkpoint.eos_token_ids,
        decode=checkpoint.decode,
        raw=checkpoint.raw,
        matcher=form.matcher(),
    )
    random = np.random.default_rng(abs(seed))
    text = ""
    while sequence.finish_reason is None:
        logits = torch.from_numpy(random.normal(0, 2, (1, checkpoint.vocabulary)))
        logits[0, [2, 7, 98]] += 6 if ends else -20  # the end, a quotation mark and a brace
        [token] = next_tokens(shaped(logits, [sequence]), [sequence.draw()])
        sequence.accept(token)
        text += sequence.frame().text
    return text, sequence.finish_reason


@settings(max_examples=120, deadline=None)
@given(schema=schemas, seed=st.integers(0, 2**31), tokens_max=st.integers(1, 300))
def test_a_finished_answer_parses_and_validates(
    checkpoint: Checkpoint, guides: Guides, schema: Any, seed: int, tokens_max: int
) -> None:
    form = compiled(guides, Guide(Schema("s", json.dumps(schema), "here")))
    text, reason = answered(checkpoint, form, seed, tokens_max)
    if reason is FinishReason.STOP:
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize("spelled", ["<|end|>", "<|user|> and <|end|>", "<|", "a<|pad|>"])
def test_a_schema_that_spells_a_control_token_gets_its_text(
    checkpoint: Checkpoint, guides: Guides, spelled: str
) -> None:
    schema = {"const": {spelled: [spelled]}}
    form = compiled(guides, Guide(Schema("s", json.dumps(schema), "here")))
    text, reason = answered(checkpoint, form, 1, 200)
    assert (reason, json.loads(text)) == (FinishReason.STOP, schema["const"])


def test_an_engine_whose_masks_cannot_spell_control_tokens_refuses_them() -> None:
    strict = Guides(
        lambda: tokenizer_source(MODEL_PATH), vocabulary=2048, eos_token_ids=[2], spells=False
    )
    compiled(strict, Guide(Schema("s", '{"const": "<|e"}', "here")))
    with pytest.raises(GuideInvalid, match=r"control token <\|end\|>"):
        compiled(strict, Guide(Schema("s", '{"const": "a<|end|>"}', "here")))


@settings(max_examples=80, deadline=None)
@given(
    tools=st.lists(objects, min_size=1, max_size=3),
    seed=st.integers(0, 2**31),
    parallel=st.booleans(),
    must_call=st.booleans(),
    tokens_max=st.integers(1, 500),
    cuts=st.integers(1, 12),
)
def test_arguments_of_finished_calls_validate_however_the_text_is_cut(
    checkpoint: Checkpoint,
    guides: Guides,
    tools: list[Any],
    seed: int,
    parallel: bool,
    must_call: bool,
    tokens_max: int,
    cuts: int,
) -> None:
    listed = tuple(Schema(f"t{n}", json.dumps(t), "here") for n, t in enumerate(tools))
    form = compiled(guides, Guide(tools=listed, must_call=must_call, parallel=parallel))
    text, reason = answered(checkpoint, form, seed, tokens_max)
    reader, random = CallReader("call", 0), Random(seed)
    calls: dict[int, list[str]] = {}
    for piece in _pieces(text, random, cuts):
        for call in reader.read(piece).calls:
            calls.setdefault(call.index, [call.name or "", ""])[1] += call.arguments
    reader.close()
    assert parallel or len(calls) <= 1
    if reason is FinishReason.STOP:
        assert calls or not must_call
        for name, arguments in calls.values():
            jsonschema.validate(json.loads(arguments), tools[int(name.removeprefix("t"))])


def _pieces(text: str, random: Random, most: int) -> Iterator[str]:
    while text:
        size = random.randint(1, most)
        yield text[:size]
        text = text[size:]


logits = st.lists(st.floats(-9, 9), min_size=8, max_size=8)


@given(
    logits,
    st.dictionaries(st.integers(0, 7), st.floats(-100, 100), max_size=4),
    st.lists(st.integers(0, 7), max_size=12),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_biases_and_penalties_are_openais(
    model: list[float], bias: dict[int, float], said: list[int], presence: float, frequency: float
) -> None:
    request = GenerationRequest(
        "r",
        (1,),
        seed=1,
        presence_penalty=presence,
        frequency_penalty=frequency,
        logit_bias=bias,
    )
    sequence = RunningSequence(
        request,
        context_tokens=99,
        eos_token_ids=frozenset(),
        decode=lambda ids: "",
        raw=lambda token: b"",
    )
    for token in said:
        sequence.accept(token)
    own = torch.tensor([model], dtype=torch.float64)
    found = shaped(own, [sequence])
    counts = Counter(said)
    wanted = [
        logit + bias.get(t, 0) - counts[t] * frequency - (counts[t] > 0) * presence
        for t, logit in enumerate(model)
    ]
    assert found[0].tolist() == pytest.approx(wanted)
    assert own[0].tolist() == model, "what log probabilities are made of"


def test_nothing_asked_for_copies_nothing(ask: Ask, checkpoint: Checkpoint) -> None:
    sequence = RunningSequence(
        ask("Hi."),
        context_tokens=99,
        eos_token_ids=frozenset(),
        decode=checkpoint.decode,
        raw=checkpoint.raw,
    )
    own = torch.zeros(1, 8)
    assert shaped(own, [sequence]) is own


def test_log_probabilities_are_the_models_own_whatever_the_form(
    bench: Any, ask: Ask, guides: Guides
) -> None:
    """The first token is forced to a brace, and comes with what the model thinks of braces."""
    free, held = bench(), bench()
    free.run(ask("Hello.", logprobs=20, tokens_max=1))
    form = compiled(guides, Guide(Schema("s", '{"type": "object"}', "here")))
    held.run(ask("Hello.", logprobs=20, tokens_max=1, constraint=form))
    [[alone]], [[forced]] = (
        [frame.logprobs for frame in found.frames["Hello."]] for found in (free, held)
    )
    assert forced.top == alone.top
    assert forced.chosen.text.startswith("{") and forced.chosen.logprob < alone.chosen.logprob


def test_a_form_is_compiled_once_for_all_who_ask_for_it(guides: Guides) -> None:
    guide = Guide(Schema("s", '{"type": "object"}', "here"))

    async def both() -> tuple[Compiled, Compiled]:
        return await asyncio.gather(guides.compiled(guide), guides.compiled(guide))

    first, second = asyncio.run(both())
    assert first is second


def test_a_step_of_too_much_work_cuts_the_answer(
    checkpoint: Checkpoint, guides: Guides, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = compiled(guides, Guide(Schema("s", '{"type": "object"}', "here")))
    sequence = RunningSequence(
        GenerationRequest("r", (5,), seed=1),
        context_tokens=CONTEXT,
        eos_token_ids=checkpoint.eos_token_ids,
        decode=checkpoint.decode,
        raw=checkpoint.raw,
        matcher=form.matcher(),
    )
    assert sequence.matcher is not None
    sequence.matcher.broken = True
    sequence.accept(2)
    assert sequence.finish_reason is FinishReason.LENGTH, "an end token ends no broken form"
