"""An answer that goes on behind its first tokens is the one that was never cut, wherever it was
cut and whatever frames its tokens came in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.workers.engines.conftest import MODEL_PATH, Ask, Bench
from workers.engines.base import (
    EngineSettings,
    Frame,
    GenerationRequest,
    UnsupportedParameter,
)
from workers.engines.continuous.checkpoint import Checkpoint, tokenizer_source
from workers.engines.continuous.engine import ContinuousEngine
from workers.engines.forms import Constraint, Guide, Schema
from workers.engines.guides import Guides

STORY = "Tell me a story about a fox."
TOWN = {
    "type": "object",
    "properties": {"town": {"enum": ["Ulm", "Bonn"]}, "days": {"type": "integer"}},
    "required": ["town", "days"],
    "additionalProperties": False,
}
WEATHER = Schema("weather", json.dumps(TOWN), "tools")
KINDS: dict[str, dict[str, Any]] = {
    "drawn": {"temperature": 1.0},
    "wild": {"temperature": 2.0, "top_p": 0.98, "top_k": 400},
    "greedy": {"temperature": 0.0, "ignore_eos": True},
    "stops": {"temperature": 1.0, "stop": (" and", ". The", "\n\n")},
    "penalties": {"presence_penalty": 1.0, "frequency_penalty": 0.7, "repetition_penalty": 1.3},
    "early": {"temperature": 1.0, "min_tokens": 20, "stop": ("a",)},
    "scored": {"temperature": 1.0, "logprobs": 3, "prompt_logprobs": 2},
    "control tokens": {"temperature": 2.0, "skip_special_tokens": False, "ignore_eos": True},
    "object": {"temperature": 1.5, "constraint": Guide(Schema("town", json.dumps(TOWN), "here"))},
    "tools": {"temperature": 1.5, "constraint": Guide(tools=(WEATHER,), must_call=True)},
    "tools or text": {"temperature": 1.0, "constraint": Guide(tools=(WEATHER,)), "stop": ("}}",)},
}


@pytest.fixture(scope="module")
def forms(checkpoint: Checkpoint) -> dict[Guide, Constraint]:
    guides = Guides(
        partial(tokenizer_source, MODEL_PATH),
        vocabulary=checkpoint.vocabulary,
        eos_token_ids=checkpoint.eos_token_ids,
    )
    wanted = [kind["constraint"] for kind in KINDS.values() if "constraint" in kind]
    return {guide: asyncio.run(guides.compiled(guide)) for guide in wanted}


class Answers:
    """Answers of one kind and seed, in whatever frames."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def frames(self, request: GenerationRequest, sizes: Sequence[int]) -> list[Frame]:
        """The frames of an answer: of so many tokens each, in turn."""
        bench = Bench(self._checkpoint, slots=2, context_tokens=256, prefill_tokens_max=32)
        sequence = bench.add(request)
        frames, size = [], 0
        while not bench.batch.idle:
            size += len(bench.batch.step())
            if size and (sequence.finish_reason or size >= sizes[len(frames) % len(sizes)]):
                frames.append(sequence.frame())
                size = 0
        return frames


def scores(frames: Sequence[Frame]) -> list[tuple[int, float]]:
    """Tokens, and how likely each was."""
    entries = [entry for frame in frames for entry in frame.logprobs or ()]
    listed = [scored for entry in entries for scored in (entry.chosen, *entry.top)]
    return [(scored.token_id, pytest.approx(scored.logprob, abs=1e-3)) for scored in listed]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(
    seed=st.integers(0, 40),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    place=st.floats(0, 1),
    other_sizes=st.lists(st.integers(1, 5), min_size=1, max_size=2),
)
def test_resumed_answer_is_the_one_that_was_never_cut(
    checkpoint: Checkpoint,
    forms: dict[Guide, Constraint],
    ask: Ask,
    kind: str,
    seed: int,
    sizes: list[int],
    place: float,
    other_sizes: list[int],
) -> None:
    words = {"ignore_eos": False, "tokens_max": 28, "seed": seed} | KINDS[kind]
    if "constraint" in words:
        words["constraint"] = forms[words["constraint"]]
    request, answers = ask(STORY, **words), Answers(checkpoint)
    whole = answers.frames(request, sizes)
    cut = round(place * (len(whole) - 1))
    came, lost = whole[:cut], whole[cut:]
    prefix = tuple(frame.token_ids for frame in came)
    rest = answers.frames(replace(request, answer_prefix=prefix), other_sizes)

    def tokens(frames: Sequence[Frame]) -> list[int]:
        return [token for frame in frames for token in frame.token_ids]

    assert tokens(rest) == tokens(lost)
    assert "".join(frame.text for frame in rest) == "".join(frame.text for frame in lost)
    assert scores(rest) == scores(lost)
    last, undisturbed = rest[-1], whole[-1]
    assert (last.finish_reason, last.stopped_by) == (
        undisturbed.finish_reason,
        undisturbed.stopped_by,
    )
    assert last.position == undisturbed.position
    assert last.usage.input + last.usage.cached_input == len(request.prompt_token_ids)
    positions = [frame.position for frame in (*came, *rest)]
    assert all(earlier < later for earlier, later in pairwise(positions))
    assert list(rest[0].prefix_texts) == [frame.text for frame in came]
    assert (rest[0].prompt_logprobs is None) == (cut > 0 or request.prompt_logprobs is None)


async def test_what_cannot_go_on_is_refused_by_the_name_of_its_field(
    checkpoint: Checkpoint, ask: Ask
) -> None:
    engine = ContinuousEngine(EngineSettings(MODEL_PATH, slots=2, context_tokens=256))
    await engine.start()
    try:
        whole = [frame async for frame in engine.generate(ask(STORY, tokens_max=8))]
        prefix = tuple(frame.token_ids for frame in whole)
        for beyond in (prefix, ((checkpoint.vocabulary,),), ((-1,),)):
            with pytest.raises(UnsupportedParameter) as refused:
                engine.generate(ask(STORY, tokens_max=8, answer_prefix=beyond))
            assert refused.value.param == "sluice.resume"
    finally:
        await engine.stop()
