"""The engine with its thread, on a real checkpoint. Waits for states, never for times."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from tests.workers.engines.conftest import MODEL_PATH, Ask
from workers.engines.base import (
    CheckpointUnsupported,
    ContextLengthExceeded,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    FinishReason,
    Frame,
    GenerationAborted,
    GenerationRequest,
    PromptInvalid,
    RequestInFlight,
)
from workers.engines.continuous.engine import ContinuousEngine
from workers.engines.names import ENGINE_NAMES
from workers.engines.registry import ENGINES, engine_named

LONG = 400


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[ContinuousEngine]:
    settings = EngineSettings(MODEL_PATH, slots=4, staging_rows=2, queue_max=2, context_tokens=512)
    engine = ContinuousEngine(settings)
    await engine.start()
    yield engine
    await engine.stop()


async def frames_of(engine: ContinuousEngine, request: GenerationRequest) -> list[Frame]:
    async with aclosing(engine.generate(request)) as stream:
        return [frame async for frame in stream]


def busy(engine: ContinuousEngine) -> bool:
    now = engine._stats
    return bool(engine._orders or engine._open or now.running or now.queued)


async def until_idle(engine: ContinuousEngine) -> None:
    async with asyncio.timeout(30):
        while busy(engine):  # noqa: ASYNC110 the engine tells nobody that it is idle
            await asyncio.sleep(0.001)


async def test_callers_are_answered_together_and_exactly(
    engine: ContinuousEngine, ask: Ask
) -> None:
    requests = [ask("hello", request_id=str(n), tokens_max=10 + n) for n in range(6)]
    answers = await asyncio.gather(*(frames_of(engine, request) for request in requests))
    for number, frames in enumerate(answers):
        assert sum(len(frame.token_ids) for frame in frames) == frames[-1].position == 10 + number
        assert frames[-1].finish_reason is FinishReason.LENGTH
    assert engine.stats().tokens_out_total == sum(range(10, 16))


async def test_a_reader_that_leaves_stops_its_sequence(engine: ContinuousEngine, ask: Ask) -> None:
    async with aclosing(engine.generate(ask("hello", tokens_max=LONG))) as stream:
        await anext(stream)
    await until_idle(engine)
    out = engine.stats().tokens_out_total
    assert out < LONG
    assert len(await frames_of(engine, ask("hello", tokens_max=1))) == 1  # its id is free again
    assert engine.stats().tokens_out_total == out + 1  # and nothing was generated for nobody


async def test_leaving_before_the_first_frame_leaves_nothing_behind(
    engine: ContinuousEngine, ask: Ask
) -> None:
    for number in range(20):
        await engine.generate(ask("hello", request_id=str(number), tokens_max=LONG)).aclose()
    await until_idle(engine)
    assert engine.stats().kv_tokens_used == 0


async def test_an_aborted_stream_ends_with_an_error(engine: ContinuousEngine, ask: Ask) -> None:
    stream = engine.generate(ask("hello", request_id="mine", tokens_max=LONG))
    await anext(stream)
    engine.abort("mine")
    with pytest.raises(GenerationAborted):
        while True:
            await anext(stream)
    await until_idle(engine)


async def test_a_slow_reader_gets_everything_in_few_frames(
    engine: ContinuousEngine, ask: Ask
) -> None:
    stream = engine.generate(ask("hello", tokens_max=50))
    await until_idle(engine)
    frames = [frame async for frame in stream]
    assert len(frames) == 1
    assert len(frames[0].token_ids) == frames[0].position == 50


async def test_a_full_queue_refuses_and_recovers(engine: ContinuousEngine, ask: Ask) -> None:
    streams = [engine.generate(ask("hello", request_id=str(n), tokens_max=LONG)) for n in range(6)]
    with pytest.raises(EngineOverloaded):
        engine.generate(ask("hello", request_id="one too many"))
    for stream in streams:
        await stream.aclose()
    assert len(await frames_of(engine, ask("hello", tokens_max=2))) <= 2


async def test_impossible_prompts_are_refused_before_anything_starts(
    engine: ContinuousEngine, ask: Ask
) -> None:
    with pytest.raises(ContextLengthExceeded) as refused:
        engine.generate(ask("hello", prompt_token_ids=(5,) * 512))
    assert (refused.value.prompt_tokens, refused.value.context_tokens) == (512, 512)
    for ids in ((), (-1,), (10**6,)):
        with pytest.raises(PromptInvalid):
            engine.generate(ask("hello", prompt_token_ids=ids))
    assert engine.stats().requests_total == 0


async def test_an_id_is_used_once_at_a_time(engine: ContinuousEngine, ask: Ask) -> None:
    stream = engine.generate(ask("hello", tokens_max=LONG))
    with pytest.raises(RequestInFlight):
        engine.generate(ask("hello"))
    await stream.aclose()


async def test_no_step_runs_on_the_event_loop(
    engine: ContinuousEngine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    step = engine._loaded.batch.step
    monkeypatch.setattr(
        engine._loaded.batch, "step", lambda: (threads.add(threading.get_ident()), step())[1]
    )
    await frames_of(engine, ask("hello"))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_a_broken_step_fails_open_streams_and_says_so(
    engine: ContinuousEngine, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def step() -> list[object]:
        raise RuntimeError("out of luck")

    assert engine.health() is None
    monkeypatch.setattr(engine._loaded.batch, "step", step)
    with pytest.raises(EngineFailed, match="out of luck"):
        await frames_of(engine, ask("hello"))
    assert "out of luck" in str(engine.health())
    with pytest.raises(EngineFailed):
        engine.generate(ask("hello", request_id="next"))


async def test_a_stopped_engine_fails_what_is_open(engine: ContinuousEngine, ask: Ask) -> None:
    stream = engine.generate(ask("hello", tokens_max=LONG))
    await engine.stop()
    with pytest.raises(EngineFailed):
        while True:
            await anext(stream)


async def test_a_folder_that_holds_no_model_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported):
        await ContinuousEngine(EngineSettings(tmp_path)).start()


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="continuous"):
        engine_named("warp", EngineSettings(MODEL_PATH))


def test_names_of_engines_are_those_of_the_registry() -> None:
    assert tuple(ENGINES) == ENGINE_NAMES
