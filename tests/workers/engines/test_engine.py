"""The engine with its thread, on a real checkpoint. Waits for states, never for times."""

import asyncio
import shutil
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio

from tests.workers.engines.conftest import MODEL_PATH, Ask
from workers.engines.base import (
    CheckpointUnsupported,
    EngineSettings,
    Frame,
    GenerationRequest,
)
from workers.engines.continuous.engine import ContinuousEngine
from workers.engines.names import ENGINE_NAMES, SIMULATED
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
    return bool(engine._thread._orders or engine._open or now.running or now.queued)


async def until_idle(engine: ContinuousEngine) -> None:
    async with asyncio.timeout(30):
        while busy(engine):  # noqa: ASYNC110 the engine tells nobody that it is idle
            await asyncio.sleep(0.001)


async def test_a_slow_reader_gets_everything_in_few_frames(
    engine: ContinuousEngine, ask: Ask
) -> None:
    stream = engine.generate(ask("hello", tokens_max=50))
    await until_idle(engine)
    frames = [frame async for frame in stream]
    assert len(frames) == 1
    assert len(frames[0].token_ids) == frames[0].position == 50


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


def test_an_unknown_engine_is_named_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="continuous"):
        engine_named("warp", EngineSettings(MODEL_PATH))


def test_names_of_engines_are_those_of_the_registry() -> None:
    assert tuple(ENGINES) == (*ENGINE_NAMES, SIMULATED)


async def test_gauges_say_what_is_left_of_open_calls_and_nothing_at_the_end(
    engine: ContinuousEngine, ask: Ask
) -> None:
    request = ask("hello " * 30, tokens_max=LONG)
    async with aclosing(engine.generate(request)) as stream:
        before = engine.stats()
        assert before.prefill_tokens_left == len(request.prompt_token_ids)
        assert before.output_tokens_left == LONG // 2
        frame = await anext(stream)
        begun = engine.stats()
        assert begun.prefill_tokens_left == 0
        assert 1 <= begun.output_tokens_left <= max(1, LONG // 2 - frame.position)
    ended = engine.stats()
    assert (ended.prefill_tokens_left, ended.output_tokens_left) == (0, 0)
    assert ended.cache_tokens_total == 8192


async def test_weights_keys_and_values_are_gone_while_an_engine_sleeps() -> None:
    engine = ContinuousEngine(EngineSettings(MODEL_PATH, slots=1, context_tokens=64))
    await engine.start()
    batch = engine._loaded.batch
    refs = [weakref.ref(batch), weakref.ref(batch.runner), weakref.ref(batch._rows)]  # type: ignore[attr-defined]
    del batch
    await engine.sleep()
    assert [ref() for ref in refs] == [None, None, None]
    await engine.stop()


async def test_an_engine_that_cannot_wake_is_not_well(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_PATH, folder)
    engine = ContinuousEngine(EngineSettings(folder, slots=1, context_tokens=64))
    await engine.start()
    await engine.sleep()
    shutil.rmtree(folder)
    with pytest.raises(CheckpointUnsupported):
        await engine.wake()
    assert "could not wake" in str(engine.health())
