"""The engine with its thread, on the real model. Waits for states, never for times."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tests.workers.engines.embedding.conftest import MINILM_PATH
from workers.engines.base import (
    CheckpointUnsupported,
    ContextLengthExceeded,
    EmbeddingFrame,
    EmbeddingRequest,
    EngineAsleep,
    EngineFailed,
    EngineOverloaded,
    EngineSettings,
    GenerationAborted,
    PromptInvalid,
    RequestInFlight,
    UnsupportedParameter,
    totals_of,
)
from workers.engines.embedding.encoder import Encoder
from workers.engines.embedding.engine import EncoderEngine
from workers.engines.text import CheckpointText

LENGTHS = (3, 200, 17, 90, 3, 256, 40, 8)
MANY = tuple((101, *[2000 + n % 50] * (n % 60), 102) for n in range(300))


def inputs(*lengths: int) -> tuple[tuple[int, ...], ...]:
    return tuple((101, *range(2000, 2000 + length - 2), 102) for length in lengths)


def ask(request_id: str = "a", *lengths: int, **fields: Any) -> EmbeddingRequest:
    return EmbeddingRequest(request_id, inputs(*(lengths or (5,))), **fields)


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[EncoderEngine]:
    settings = EngineSettings(
        MINILM_PATH, slots=2, queue_max=2, batch_tokens_max=400, waiting_tokens_max=20_000
    )
    engine = EncoderEngine(settings)
    await engine.start()
    yield engine
    await engine.stop()


async def frames_of(engine: EncoderEngine, request: EmbeddingRequest) -> list[EmbeddingFrame]:
    async with aclosing(engine.embed(request)) as stream:
        return [frame async for frame in stream]


def vectors(frames: Sequence[EmbeddingFrame]) -> Any:
    found = {each.index: each.vector for frame in frames for each in frame.embeddings}
    assert sorted(found) == list(range(len(found)))
    return np.stack([np.frombuffer(found[index], "<f4") for index in sorted(found)])


async def until_idle(engine: EncoderEngine) -> None:
    async with asyncio.timeout(60):
        while engine._thread._orders or engine._open or not engine._loaded.idle:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_every_input_gets_its_vector_and_is_counted_once(
    engine: EncoderEngine, minilm: Any
) -> None:
    frames = await frames_of(engine, ask("a", *LENGTHS))
    wanted = np.concatenate([Encoder(minilm).vectors([each]) for each in inputs(*LENGTHS)])
    assert abs(vectors(frames) - wanted).max() < 1e-5
    used = [frame.usage for frame in frames]
    assert [each.input for each in used] == sorted(each.input for each in used)
    assert (used[-1].input, used[-1].cached_input, used[-1].output) == (sum(LENGTHS), 0, 0)
    assert [frame.last for frame in frames] == [False] * (len(frames) - 1) + [True]
    assert engine.stats().tokens_prefilled_total == sum(LENGTHS)


async def test_callers_share_batches_and_get_their_own(engine: EncoderEngine) -> None:
    requests = [ask(str(n), 5 + n, 60 - n) for n in range(4)]
    alone = [vectors(await frames_of(engine, request)) for request in requests]
    batches_alone = engine.stats().prefill_steps_total
    together = await asyncio.gather(*(frames_of(engine, request) for request in requests))
    for mine, wanted in zip(together, alone, strict=True):
        assert abs(vectors(mine) - wanted).max() < 1e-5
    assert engine.stats().prefill_steps_total - batches_alone <= batches_alone
    assert (engine.stats().running, engine.stats().queued) == (0, 0)


async def test_a_slow_reader_gets_everything(engine: EncoderEngine) -> None:
    stream = engine.embed(ask("a", *LENGTHS))
    await until_idle(engine)
    frames = [frame async for frame in stream]
    assert vectors(frames).shape == (len(LENGTHS), 384)


async def test_fewer_dimensions_for_who_asked_and_more_are_refused(
    engine: EncoderEngine,
) -> None:
    short, whole = await asyncio.gather(
        frames_of(engine, ask("a", 9, dimensions=16)), frames_of(engine, ask("b", 9))
    )
    first = vectors(whole)[:, :16]
    assert np.allclose(vectors(short), first / np.linalg.norm(first), atol=1e-6)
    with pytest.raises(UnsupportedParameter) as refused:
        engine.embed(ask(dimensions=385))
    assert refused.value.param == "dimensions"


async def test_a_reader_that_leaves_takes_the_rest_out_of_the_batches(
    engine: EncoderEngine,
) -> None:
    async with aclosing(engine.embed(EmbeddingRequest("a", MANY))) as stream:
        await anext(stream)
    await until_idle(engine)
    assert engine.stats().tokens_prefilled_total < sum(map(len, MANY))
    assert len(await frames_of(engine, ask("a"))) == 1  # its id is free again


async def test_a_small_call_is_done_long_before_a_large_one(engine: EncoderEngine) -> None:
    large = engine.embed(EmbeddingRequest("large", MANY))
    first = await anext(large)
    await frames_of(engine, ask("small", 4))
    before = await anext(large)
    assert first.usage.input < before.usage.input < sum(map(len, MANY))
    await large.aclose()


async def test_an_aborted_call_ends_with_an_error(engine: EncoderEngine) -> None:
    stream = engine.embed(EmbeddingRequest("a", MANY))
    await anext(stream)
    engine.abort("a")
    with pytest.raises(GenerationAborted):
        while True:
            await anext(stream)


async def test_impossible_inputs_are_refused_before_anything_starts(
    engine: EncoderEngine,
) -> None:
    with pytest.raises(ContextLengthExceeded) as refused:
        engine.embed(ask("a", 5, 257))
    assert (refused.value.prompt_tokens, refused.value.context_tokens) == (257, 256)
    for wrong in ((), ((),), ((5,), ()), ((-1,),), ((30_522,),)):
        with pytest.raises(PromptInvalid):
            engine.embed(EmbeddingRequest("a", wrong))
    assert engine.stats().requests_total == 0


async def test_calls_and_waiting_tokens_are_bounded(engine: EncoderEngine) -> None:
    streams = [engine.embed(ask(str(n), *([100] * 60))) for n in range(3)]
    with pytest.raises(EngineOverloaded, match="tokens"):
        engine.embed(ask("one too many", *([100] * 60)))
    streams.append(engine.embed(ask("small")))
    with pytest.raises(EngineOverloaded, match="requests"):
        engine.embed(ask("one too many"))
    with pytest.raises(RequestInFlight):
        engine.embed(ask("small"))
    for stream in streams:
        await stream.aclose()
    await until_idle(engine)
    assert len(await frames_of(engine, ask("later"))) == 1


async def test_the_settings_may_bound_the_context_further() -> None:
    engine = EncoderEngine(EngineSettings(MINILM_PATH, context_tokens=32))
    await engine.start()
    assert engine.context_tokens == 32
    with pytest.raises(ContextLengthExceeded):
        engine.embed(ask("a", 33))
    await engine.stop()


async def test_nothing_is_computed_on_the_event_loop(
    engine: EncoderEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    encoder = engine._loaded.encoder
    compute = encoder.vectors

    def watched(batch: Any) -> Any:
        threads.add(threading.get_ident())
        return compute(batch)

    monkeypatch.setattr(encoder, "vectors", watched)
    await frames_of(engine, ask())
    assert threads and threading.get_ident() not in threads


async def test_a_broken_batch_fails_open_calls_and_says_so(
    engine: EncoderEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(batch: Any) -> Any:
        raise RuntimeError("out of luck")

    assert engine.health() is None
    monkeypatch.setattr(engine._loaded.encoder, "vectors", broken)
    with pytest.raises(EngineFailed, match="out of luck"):
        await frames_of(engine, ask())
    assert "out of luck" in str(engine.health())
    with pytest.raises(EngineFailed):
        engine.embed(ask())


async def test_a_stopped_engine_fails_what_is_open(engine: EncoderEngine) -> None:
    stream = engine.embed(EmbeddingRequest("a", MANY))
    await engine.stop()
    with pytest.raises(EngineFailed):
        while True:
            await anext(stream)


async def test_a_sleeping_engine_holds_no_model_and_goes_on_after_it(
    engine: EncoderEngine,
) -> None:
    before = vectors(await frames_of(engine, ask("a", 5, 9)))
    await until_idle(engine)
    told, encoder = totals_of(engine.stats()), weakref.ref(engine._loaded.encoder)
    await engine.sleep()
    assert encoder() is None, "the weights are gone"
    assert (engine.health(), totals_of(engine.stats())) == (None, told)
    with pytest.raises(EngineAsleep):
        engine.embed(ask())
    await engine.wake()
    assert np.array_equal(vectors(await frames_of(engine, ask("a", 5, 9))), before)
    assert totals_of(engine.stats())["requests_total"] == told["requests_total"] + 1


async def test_a_folder_that_holds_no_model_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported):
        await EncoderEngine(EngineSettings(tmp_path)).start()


def test_a_tokenizer_file_that_cuts_and_pads_does_neither_here(text: CheckpointText) -> None:
    assert len(text.token_ids("word " * 300)) == 302
    assert text.token_ids("") == (101, 102)


async def test_the_time_of_batches_is_that_of_their_calls(engine: EncoderEngine) -> None:
    asked = [ask(str(n), *LENGTHS) for n in range(3)]
    answered = await asyncio.gather(*(frames_of(engine, request) for request in asked))
    told = [[frame.usage.busy_us for frame in frames] for frames in answered]
    assert all(shares == sorted(shares) for shares in told)
    assert sum(shares[-1] for shares in told) == engine.stats().busy_us_total > 0
