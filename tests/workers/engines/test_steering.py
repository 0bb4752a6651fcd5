"""What callers of vLLM say of how tokens are chosen and where answers end, kept by every engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any

import pytest
import pytest_asyncio

from tests.workers.engines.conftest import MODEL_PATH, Ask
from workers.engines.base import (
    Engine,
    EngineSettings,
    FinishReason,
    Frame,
    GenerationRequest,
    UnsupportedParameter,
)
from workers.engines.forms import Guide, Rule, Schema
from workers.engines.names import ENGINE_NAMES, VLLM
from workers.engines.registry import engine_named

NAMES = [name for name in ENGINE_NAMES if name != VLLM or find_spec("vllm") is not None]
SETTINGS = EngineSettings(
    MODEL_PATH, slots=4, context_tokens=512, prefill_tokens_max=32, block_tokens=32
)
STORY = "Tell me a story about a fox."
LONG_PROMPT = "the gate and the river " * 30

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=NAMES)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    running = engine_named(str(request.param), SETTINGS)
    await running.start()
    yield running
    await running.stop()


async def frames_of(engine: Engine, request: GenerationRequest) -> list[Frame]:
    async with aclosing(engine.generate(request)) as stream:
        return [frame async for frame in stream]


async def tokens_of(engine: Engine, request: GenerationRequest) -> list[int]:
    return [token for frame in await frames_of(engine, request) for token in frame.token_ids]


def text_of(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames)


async def end_of(engine: Engine, ask: Ask) -> tuple[int, int]:
    """How long the story is by itself, and the token that ends it."""
    ids = await tokens_of(engine, ask(STORY, ignore_eos=False, tokens_max=None))
    return len(ids), ids[-1]


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"min_p": 1.0}, {"top_k": 1, "top_p": 0.5}])
async def test_the_narrowest_choice_is_the_likeliest_token(
    engine: Engine, ask: Ask, narrow: dict[str, Any]
) -> None:
    greedy = await tokens_of(engine, ask("hello"))
    assert await tokens_of(engine, ask("hello", temperature=2.0, **narrow)) == greedy


@pytest.mark.parametrize("narrow", [{"top_k": 3}, {"min_p": 0.2}, {"top_p": 0.5}])
async def test_draws_stay_within_their_bounds(
    engine: Engine, ask: Ask, narrow: dict[str, Any]
) -> None:
    """By the probabilities that temperature 1 leaves as they are."""
    wanted = ask("hello", temperature=1.0, logprobs=20, tokens_max=48, seed=11, **narrow)
    for frame in await frames_of(engine, wanted):
        for entry in frame.logprobs or ():
            place = [each.token_id for each in entry.top].index(entry.chosen.token_id)
            before = sum(2.718281828459045**each.logprob for each in entry.top[:place])
            share = 2.718281828459045 ** (entry.chosen.logprob - entry.top[0].logprob)
            assert place < narrow.get("top_k", 20)
            assert share > narrow.get("min_p", 0) - 1e-5
            assert before < narrow.get("top_p", 1) + 1e-5


async def test_every_token_is_the_same_by_any_word(engine: Engine, ask: Ask) -> None:
    warm = ask("hello", temperature=1.5, seed=3)
    wanted = await tokens_of(engine, warm)
    for neutral in ({"top_k": -1}, {"top_k": 0}, {"min_p": 0.0}, {"repetition_penalty": 1.0}):
        assert await tokens_of(engine, ask("hello", temperature=1.5, seed=3, **neutral)) == wanted


async def test_a_seeded_prompt_of_several_steps_is_drawn_alike_in_company(
    engine: Engine, ask: Ask
) -> None:
    """A batch of long prompts: their last parts come in steps that others draw in."""

    async def drawn(companions: int) -> list[int]:
        mine = ask(LONG_PROMPT, request_id="mine", seed=5, temperature=1.0, top_p=0.9)
        others = [
            ask(f"{n} {LONG_PROMPT}", request_id=str(n), seed=n, temperature=1.0)
            for n in range(companions)
        ]
        found, *_ = await asyncio.gather(*(tokens_of(engine, each) for each in (mine, *others)))
        return found

    assert await drawn(0) == await drawn(3)
    assert engine.health() is None


async def test_nothing_ends_an_answer_before_its_least_tokens(engine: Engine, ask: Ask) -> None:
    length, _ = await end_of(engine, ask)
    frames = await frames_of(
        engine, ask(STORY, ignore_eos=False, tokens_max=None, min_tokens=length + 20)
    )
    assert frames[-1].usage.output >= length + 20
    stopped = await frames_of(engine, ask("hello", stop=("e", "a"), min_tokens=10))
    assert stopped[-1].finish_reason is FinishReason.STOP
    assert stopped[-1].usage.output > 10


async def test_an_answer_without_an_end_goes_on_to_its_length(engine: Engine, ask: Ask) -> None:
    length, end = await end_of(engine, ask)
    wanted = ask(STORY, ignore_eos=True, tokens_max=length + 9)
    ids = await tokens_of(engine, wanted)
    assert (len(ids), ids[length - 1]) == (length + 9, end)


async def test_a_stop_token_ends_the_answer_and_is_named(engine: Engine, ask: Ask) -> None:
    ids = await tokens_of(engine, ask("hello"))
    whole = text_of(await frames_of(engine, ask("hello")))
    stop = ids[9]
    frames = await frames_of(engine, ask("hello", stop_token_ids=(stop,)))
    assert frames[-1].finish_reason is FinishReason.STOP
    assert frames[-1].stopped_by == stop
    assert frames[-1].usage.output == ids.index(stop) + 1
    left_out = text_of(frames)
    told = text_of(
        await frames_of(
            engine, ask("hello", stop_token_ids=(stop,), include_stop_str_in_output=True)
        )
    )
    assert whole.startswith(told) and told.startswith(left_out) and told != left_out
    with pytest.raises(UnsupportedParameter) as refused:
        engine.generate(ask("hello", stop_token_ids=(10**6,)))
    assert refused.value.param == "stop_token_ids"


async def test_a_stop_string_is_told_where_it_is_asked_for(engine: Engine, ask: Ask) -> None:
    whole = text_of(await frames_of(engine, ask("hello")))
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    frames = await frames_of(engine, ask("hello", stop=(stop,), include_stop_str_in_output=True))
    assert text_of(frames) == whole[: whole.index(stop) + len(stop)]


async def test_control_tokens_are_told_where_they_are_asked_for(engine: Engine, ask: Ask) -> None:
    length, _ = await end_of(engine, ask)
    wanted = {"ignore_eos": True, "tokens_max": length + 1}
    plain = text_of(await frames_of(engine, ask(STORY, **wanted)))
    spelled = text_of(await frames_of(engine, ask(STORY, skip_special_tokens=False, **wanted)))
    assert "<|end|>" in spelled and "<|end|>" not in plain
    assert spelled.replace("<|end|>", "").startswith(plain[: len(plain) // 2])


async def test_a_penalty_of_repetition_makes_repeated_tokens_rarer(
    engine: Engine, ask: Ask
) -> None:
    asked: dict[str, Any] = {"tokens_max": 200}
    plain = await tokens_of(engine, ask("hello", **asked))
    penal = await tokens_of(engine, ask("hello", repetition_penalty=1.5, **asked))
    assert len(set(penal)) > len(set(plain))


async def test_the_tokens_of_a_prompt_come_with_log_probabilities(engine: Engine, ask: Ask) -> None:
    """Known prefixes are computed again, and what is generated afterwards is the same."""
    scored = ask(LONG_PROMPT, prompt_logprobs=2, cache_salt="scored")
    plain = await tokens_of(engine, ask(LONG_PROMPT, cache_salt="scored"))
    first, again = [await frames_of(engine, scored) for _ in range(2)]
    assert [token for frame in again for token in frame.token_ids] == plain
    entries = again[0].prompt_logprobs
    assert entries is not None
    assert [each.chosen.token_id for each in entries] == list(scored.prompt_token_ids)
    assert again[0].usage.cached_input == 0
    assert all(frame.prompt_logprobs is None for frame in again[1:])
    before = first[0].prompt_logprobs
    assert before is not None and entries[0].rank is None
    for mine, other in zip(entries[1:], before[1:], strict=True):
        assert mine.chosen.logprob == pytest.approx(other.chosen.logprob, abs=1e-3)
        assert len(mine.top) == 2
        assert mine.rank is not None and mine.rank >= 1
        assert (mine.rank == 1) == (mine.chosen.token_id == mine.top[0].token_id)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Rule("choice", 'start: "yes" | "no"\n', "p"), ("yes", "no")),
        (Rule("regex", "start: /[0-9]{3}/\n", "p"), None),
    ],
)
async def test_an_answer_has_the_form_of_its_rule(
    engine: Engine, ask: Ask, rule: Rule, wanted: tuple[str, ...] | None
) -> None:
    constraint = await engine.constrain(Guide(rule=rule))
    frames = await frames_of(engine, ask("hello", constraint=constraint, temperature=1.5))
    text = text_of(frames)
    assert frames[-1].finish_reason is FinishReason.STOP
    assert text in wanted if wanted else text.isdigit() and len(text) == 3


async def test_least_tokens_beside_a_form_are_refused(engine: Engine, ask: Ask) -> None:
    constraint = await engine.constrain(Guide(Schema("a", '{"type": "object"}', "p")))
    with pytest.raises(UnsupportedParameter) as refused:
        engine.generate(ask("hello", constraint=constraint, min_tokens=3))
    assert refused.value.param == "min_tokens"
