"""What every engine that generates promises, asked through its interface alone. vLLM takes part
where it is installed: in an environment of its own, where `test_vllm.py` runs this file."""

import asyncio
import math
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from msgspec import structs

from tests.workers.engines.conftest import MODEL_PATH, Ask
from tests.workers.engines.simulated.cards import H100
from workers.engines.base import (
    CheckpointUnsupported,
    ContextLengthExceeded,
    Engine,
    EngineAsleep,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    FinishReason,
    Frame,
    GenerationAborted,
    GenerationRequest,
    PromptInvalid,
    RequestInFlight,
    totals_of,
)
from workers.engines.names import ENGINE_NAMES, SIMULATED, VLLM
from workers.engines.registry import engine_named

MODELS = [name for name in ENGINE_NAMES if name != VLLM or find_spec("vllm") is not None]
NAMES = [*MODELS, SIMULATED]
SETTINGS = EngineSettings(
    MODEL_PATH,
    slots=4,
    staging_rows=2,
    queue_max=2,
    context_tokens=512,
    block_tokens=32,
    roofline=H100,
)
LONG = 400
PARAGRAPH = "the gate and the river " * 12

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(name: str) -> AsyncIterator[Engine]:
    """One for all tests, which leave it idle: some engines take long to start."""
    engine = engine_named(name, SETTINGS)
    await engine.start()
    yield engine
    await engine.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def brittle(name: str) -> AsyncIterator[Engine]:
    """One of the test's own, to stop or to break."""
    engine = engine_named(name, replace(SETTINGS, slots=1))
    await engine.start()
    yield engine
    await engine.stop()


async def frames_of(engine: Engine, request: GenerationRequest) -> list[Frame]:
    async with aclosing(engine.generate(request)) as stream:
        return [frame async for frame in stream]


def text_of(frames: list[Frame]) -> str:
    return "".join(frame.text for frame in frames)


def tokens_of(frames: list[Frame]) -> list[int]:
    return [token for frame in frames for token in frame.token_ids]


async def until(engine: Engine, reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached():  # noqa: ASYNC110 the engine tells nobody that it is idle
            await asyncio.sleep(0.001)


async def until_idle(engine: Engine) -> None:
    def idle() -> bool:
        now = engine.stats()
        return not (now.running or now.queued or now.kv_tokens_used)

    await until(engine, idle)


async def test_callers_are_answered_together_and_exactly(engine: Engine, ask: Ask) -> None:
    before = engine.stats().tokens_out_total
    requests = [ask("hello", request_id=str(n), tokens_max=10 + n) for n in range(6)]
    answers = await asyncio.gather(*(frames_of(engine, request) for request in requests))
    for number, frames in enumerate(answers):
        assert len(tokens_of(frames)) == frames[-1].position == 10 + number
        assert frames[-1].finish_reason is FinishReason.LENGTH
        assert all(frame.finish_reason is None for frame in frames[:-1])
    await until_idle(engine)
    assert engine.stats().tokens_out_total - before == sum(range(10, 16))


async def test_immediate_frames_leave_token_by_token(engine: Engine, ask: Ask) -> None:
    """A reader that was away meanwhile gets more at once: on a busy machine one of five is not."""
    counts = [
        len(await frames_of(engine, ask("hello", request_id=str(n), immediate=True, tokens_max=40)))
        for n in range(5)
    ]
    assert max(counts) > 20


async def test_a_reader_that_leaves_stops_its_sequence(engine: Engine, ask: Ask) -> None:
    before = engine.stats().tokens_out_total
    async with aclosing(engine.generate(ask("hello", tokens_max=LONG))) as stream:
        await anext(stream)
    await until_idle(engine)
    out = engine.stats().tokens_out_total
    assert out - before < LONG
    assert len(await frames_of(engine, ask("hello", tokens_max=1))) == 1  # its id is free again
    await until_idle(engine)
    assert engine.stats().tokens_out_total == out + 1  # and nothing was generated for nobody


async def test_leaving_before_the_first_frame_leaves_nothing_behind(
    engine: Engine, ask: Ask
) -> None:
    for number in range(20):
        await engine.generate(ask("hello", request_id=str(number), tokens_max=LONG)).aclose()
    await until_idle(engine)


async def test_an_aborted_stream_ends_with_an_error(engine: Engine, ask: Ask) -> None:
    stream = engine.generate(ask("hello", request_id="mine", tokens_max=LONG))
    await anext(stream)
    engine.abort("mine")
    with pytest.raises(GenerationAborted):
        while True:
            await anext(stream)
    await until_idle(engine)


async def test_a_full_queue_refuses_and_recovers(engine: Engine, ask: Ask) -> None:
    streams = [engine.generate(ask("hello", request_id=str(n), tokens_max=LONG)) for n in range(6)]
    with pytest.raises(EngineOverloaded):
        engine.generate(ask("hello", request_id="one too many"))
    await until(engine, lambda: engine.stats().running == SETTINGS.slots)
    assert engine.stats().queued == 2
    for stream in streams:
        await stream.aclose()
    assert len(tokens_of(await frames_of(engine, ask("hello", tokens_max=2)))) == 2


async def test_impossible_prompts_are_refused_before_anything_starts(
    engine: Engine, ask: Ask
) -> None:
    before = engine.stats().requests_total
    with pytest.raises(ContextLengthExceeded) as refused:
        engine.generate(ask("hello", prompt_token_ids=(5,) * 512))
    assert (refused.value.prompt_tokens, refused.value.context_tokens) == (512, 512)
    for ids in ((), (-1,), (10**6,)):
        with pytest.raises(PromptInvalid):
            engine.generate(ask("hello", prompt_token_ids=ids))
    assert engine.stats().requests_total == before


async def test_an_id_is_used_once_at_a_time(engine: Engine, ask: Ask) -> None:
    stream = engine.generate(ask("hello", tokens_max=LONG))
    with pytest.raises(RequestInFlight):
        engine.generate(ask("hello"))
    await stream.aclose()


async def test_a_known_prefix_is_counted_as_cached_and_changes_no_answer(
    engine: Engine, ask: Ask
) -> None:
    first = await frames_of(engine, ask(PARAGRAPH, request_id="first", cache_salt="known"))
    again = await frames_of(engine, ask(PARAGRAPH, request_id="again", cache_salt="known"))
    prompt = len(ask(PARAGRAPH).prompt_token_ids)
    for frames in (first, again):
        assert {frame.usage.input + frame.usage.cached_input for frame in frames} == {prompt}
    assert first[-1].usage.cached_input == 0
    assert again[0].usage.cached_input == (prompt - 1) // 32 * 32 > 0
    assert tokens_of(first) == tokens_of(again)


async def test_another_organization_shares_no_prefix(engine: Engine, ask: Ask) -> None:
    text = PARAGRAPH + "of two organizations"
    usages = [
        (await frames_of(engine, ask(text, request_id=salt, cache_salt=salt, tokens_max=1)))[-1]
        for salt in ("org_a", "org_b")
    ]
    assert [frame.usage.cached_input for frame in usages] == [0, 0]


async def test_a_stop_string_ends_the_answer_and_is_not_in_it(engine: Engine, ask: Ask) -> None:
    whole = text_of(await frames_of(engine, ask("hello")))
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    before = engine.stats().tokens_out_total
    frames = await frames_of(engine, ask("hello", stop=(stop,)))
    assert text_of(frames) == whole[: whole.index(stop)]
    assert frames[-1].finish_reason is FinishReason.STOP
    await until_idle(engine)
    assert engine.stats().tokens_out_total - before == frames[-1].usage.output


async def test_an_answer_that_ends_by_itself_says_so_and_counts_its_end(
    engine: Engine, ask: Ask
) -> None:
    wanted = ask("Tell me a story about a fox.", ignore_eos=False, tokens_max=None)
    frames = await frames_of(engine, wanted)
    assert frames[-1].finish_reason is FinishReason.STOP
    assert len(tokens_of(frames)) == frames[-1].usage.output < 500
    assert not text_of(frames).endswith(">")


async def test_an_answer_ends_where_the_context_does(engine: Engine, ask: Ask) -> None:
    request = ask("hello", tokens_max=None)
    frames = await frames_of(engine, request)
    assert len(request.prompt_token_ids) + frames[-1].usage.output == engine.context_tokens
    assert frames[-1].finish_reason is FinishReason.LENGTH


async def test_a_seed_decides_the_draws_whoever_shares_the_batch(engine: Engine, ask: Ask) -> None:
    async def answer(seed: int, companions: int) -> list[int]:
        mine = ask("hello", request_id="mine", seed=seed, temperature=2.0, top_p=0.95)
        others = [
            ask("name a bird", request_id=str(n), seed=n, temperature=1.5)
            for n in range(companions)
        ]
        frames, *_ = await asyncio.gather(*(frames_of(engine, each) for each in (mine, *others)))
        return tokens_of(frames)

    assert await answer(5, companions=0) == await answer(5, companions=3)
    assert await answer(5, companions=0) != await answer(6, companions=0)


@pytest.mark.parametrize("temperature", [0, 1])
async def test_an_answer_goes_on_behind_any_of_its_frames_as_if_it_had_never_been_cut(
    engine: Engine, ask: Ask, temperature: int
) -> None:
    """Alone in its batch, and greedy or with draws that follow the seed and the position."""
    request = ask("hello", temperature=temperature, seed=3, immediate=True, tokens_max=60)
    whole = await frames_of(engine, request)
    assert len(whole) > 1
    for cut in {1, len(whole) // 2, len(whole) - 1} - {0}:
        prefix = tuple(frame.token_ids for frame in whole[:cut])
        rest = await frames_of(engine, structs.replace(request, answer_prefix=prefix))
        assert tokens_of(rest) == tokens_of(whole[cut:])
        assert text_of(rest) == text_of(whole[cut:])
        assert (rest[-1].finish_reason, rest[-1].position, rest[-1].usage.output) == (
            *(whole[-1].finish_reason, whole[-1].position, whole[-1].usage.output),
        )


@pytest.mark.parametrize("name", MODELS, scope="module")
async def test_each_token_comes_with_the_log_probabilities_asked_for(
    engine: Engine, ask: Ask
) -> None:
    frames = await frames_of(engine, ask("hello", logprobs=3))
    scored = [entry for frame in frames for entry in frame.logprobs or ()]
    assert [entry.chosen.token_id for entry in scored] == tokens_of(frames)
    for entry in scored:
        likeliest = [other.logprob for other in entry.top]
        assert len(likeliest) == 3 and likeliest == sorted(likeliest, reverse=True)
        assert entry.top[0] == entry.chosen  # greedy
        assert sum(map(math.exp, likeliest)) < 1.0001
    assert (await frames_of(engine, ask("hello")))[0].logprobs is None


@pytest.mark.parametrize("name", MODELS, scope="module")
async def test_log_probabilities_are_those_before_temperature(engine: Engine, ask: Ask) -> None:
    plain, warm = [
        (await frames_of(engine, ask("hello", tokens_max=1, logprobs=20, temperature=heat)))[0]
        for heat in (0.0, 2.0)
    ]
    assert plain.logprobs and warm.logprobs
    for mine, other in zip(plain.logprobs[0].top, warm.logprobs[0].top, strict=True):
        assert (mine.token_id, mine.raw) == (other.token_id, other.raw)
        assert mine.logprob == pytest.approx(other.logprob, abs=1e-4)


async def test_the_narrowest_nucleus_is_the_likeliest_token(engine: Engine, ask: Ask) -> None:
    greedy, narrow = [
        tokens_of(await frames_of(engine, ask("hello", temperature=heat, top_p=top_p)))
        for heat, top_p in ((0.0, 1.0), (2.0, 0.0))
    ]
    assert greedy == narrow


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("top_p", [0.0, 1e-12, 1.0])
@pytest.mark.parametrize("temperature", [0.0, 1e-9, 2.0])
async def test_no_allowed_parameter_breaks_the_engine(
    engine: Engine, name: str, ask: Ask, seed: int, top_p: float, temperature: float
) -> None:
    logprobs = None if name == SIMULATED else 20
    odd = ask("hello", seed=seed, top_p=top_p, temperature=temperature, tokens_max=2)
    odd = msgspec.structs.replace(odd, logprobs=logprobs)
    assert len(tokens_of(await frames_of(engine, odd))) == 2
    assert engine.health() is None


async def test_a_broken_step_fails_open_streams_and_says_so(
    brittle: Engine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step() -> list[object]:
        raise RuntimeError("out of luck")

    assert brittle.health() is None
    monkeypatch.setattr(brittle._loaded.batch, "step", step)  # type: ignore[attr-defined]
    with pytest.raises(EngineFailed, match="out of luck"):
        await frames_of(brittle, ask("hello"))
    assert "out of luck" in str(brittle.health())
    with pytest.raises(EngineFailed):
        brittle.generate(ask("hello", request_id="next"))


async def test_a_stopped_engine_fails_what_is_open(brittle: Engine, ask: Ask) -> None:
    stream = brittle.generate(ask("hello", tokens_max=LONG))
    await brittle.stop()
    with pytest.raises(EngineFailed):
        while True:
            await anext(stream)


async def test_a_checkpoint_without_a_generation_config_ends_by_its_config(
    name: str, tmp_path: Path, ask: Ask
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_PATH, folder, ignore=shutil.ignore_patterns("generation_config.json"))
    engine = engine_named(name, replace(SETTINGS, model_path=folder))
    await engine.start()
    wanted = ask("Tell me a story about a fox.", ignore_eos=False, tokens_max=None)
    assert (await frames_of(engine, wanted))[-1].finish_reason is FinishReason.STOP
    await engine.stop()


async def test_a_folder_that_holds_no_model_fails_the_start(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported):
        await engine_named(name, EngineSettings(tmp_path)).start()


@pytest.mark.parametrize("name", MODELS)
async def test_a_model_nobody_knows_fails_the_start(name: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "warp", "architectures": ["Warp"]}')
    with pytest.raises(CheckpointUnsupported, match="could not be loaded"):
        await engine_named(name, EngineSettings(tmp_path)).start()


async def test_a_sleeping_engine_holds_no_model_takes_no_call_and_goes_on_after_it(
    brittle: Engine, ask: Ask
) -> None:
    request = ask(PARAGRAPH)
    before = await frames_of(brittle, request)
    await until_idle(brittle)
    told = totals_of(brittle.stats())
    await brittle.sleep()
    assert brittle.health() is None
    assert totals_of(brittle.stats()) == told, "totals go on"
    with pytest.raises(EngineAsleep):
        brittle.generate(request)
    await brittle.wake()
    after = await frames_of(brittle, request)
    assert (text_of(after), tokens_of(after)) == (text_of(before), tokens_of(before))
    assert after[-1].usage.cached_input == 0, "its cache went with the model"
    await until_idle(brittle)
    now = totals_of(brittle.stats())
    assert now["requests_total"] == told["requests_total"] + 1
    assert all(now[name] >= total for name, total in told.items())
