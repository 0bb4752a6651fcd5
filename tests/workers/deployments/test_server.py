import asyncio
from typing import Any

import pytest

from tests.workers.deployments.asgi import Clock, Visit, serve
from workers.deployments.bodies import seed_of
from workers.engines.base import (
    ContextLengthExceeded,
    EngineError,
    EngineFailed,
    EngineOverloaded,
    RequestInFlight,
)
from workers.engines.fake import ScriptedEngine, word_frames

CHAT = "/v1/chat/completions"


def body(**fields: object) -> dict[str, object]:
    return {
        "model": "small",
        "messages": [{"role": "user", "content": "one two three"}],
        "sluice": {"request_id": "req_1", "cache_salt": "org_1"},
        "stream": True,
    } | fields


def choice(text: str, reason: str | None) -> dict[str, Any]:
    return {"index": 0, "delta": {"content": text}, "finish_reason": reason, "logprobs": None}


async def test_an_answer_is_frames_with_exact_usage_and_a_done() -> None:
    visit = await Visit(serve(ScriptedEngine(word_frames("a ", "b"))), "POST", CHAT, body()).end()
    assert visit.status == 200
    assert visit.headers[b"content-type"].startswith(b"text/event-stream")
    assert visit.events() == [
        {
            "choices": [choice("a ", None)],
            "sluice": {
                "v": 1,
                "position": 1,
                "busy_us": 70,
                "token_ids": [1],
                "usage": {"input": 3, "cached_input": 0, "output": 1},
            },
        },
        {
            "choices": [choice("b", "stop")],
            "sluice": {
                "v": 1,
                "position": 2,
                "busy_us": 140,
                "token_ids": [2],
                "usage": {"input": 3, "cached_input": 0, "output": 2},
            },
        },
        "[DONE]",
    ]


async def test_the_body_says_what_is_generated() -> None:
    engine = ScriptedEngine(word_frames("a"))
    fields = {"max_tokens": 7, "temperature": 0.5, "top_p": 0.9, "stop": "X", "seed": 3}
    await Visit(serve(engine), "POST", CHAT, body(**fields)).end()
    await Visit(serve(engine), "POST", CHAT, body(stop=["X", "Y"], n=1)).end()
    first, second = engine.requests
    assert (first.tokens_max, first.temperature, first.top_p) == (7, 0.5, 0.9)
    assert (first.stop, first.seed, first.cache_salt) == (("X",), 3, "org_1")
    assert first.prompt_token_ids == (3, 3, 5)
    assert (second.tokens_max, second.temperature, second.top_p) == (None, 1.0, 1.0)
    assert (second.stop, second.seed) == (("X", "Y"), seed_of("req_1"))


@pytest.mark.parametrize("secret", [None, "", "wrong", "a secret made at star"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", CHAT), ("GET", "/v1/sluice/stats"), ("POST", "/v1/sluice/drain")],
)
async def test_without_the_secret_every_door_is_shut(
    secret: str | None, method: str, path: str
) -> None:
    engine = ScriptedEngine(word_frames("a"))
    visit = await Visit(serve(engine), method, path, body(), secret=secret).end()
    assert visit.status == 401
    assert not engine.requests


def test_a_server_without_a_secret_is_not_made() -> None:
    with pytest.raises(ValueError, match="secret"):
        serve(ScriptedEngine([]), secret="")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{broken", "invalid_body"),
        (b"[]", "invalid_body"),
        (body(messages="hello"), "invalid_body"),
        (body(max_tokens=0), "invalid_body"),
        (body(max_tokens="ten"), "invalid_body"),
        (body(temperature=3), "invalid_body"),
        (body(top_p=-0.1), "invalid_body"),
        (body(sluice={}), "invalid_body"),
        (body(messages=[]), "invalid_prompt"),
    ],
)
async def test_bad_input_is_an_error_object_and_starts_nothing(sent: object, code: str) -> None:
    engine = ScriptedEngine(word_frames("a"))
    visit = await Visit(serve(engine), "POST", CHAT, sent).end()
    assert visit.status == 400
    assert visit.json()["error"]["code"] == code
    assert set(visit.json()["error"]) == {"message", "type", "param", "code"}
    assert not engine.requests


@pytest.mark.parametrize(
    ("refusal", "status", "code"),
    [
        (
            ContextLengthExceeded(prompt_tokens=9, context_tokens=8),
            400,
            "context_length_exceeded",
        ),
        (EngineOverloaded("full"), 503, "server_is_overloaded"),
        (RequestInFlight("req_1"), 409, "request_in_flight"),
        (EngineFailed("broken"), 500, "engine_failed"),
    ],
)
async def test_a_refusal_of_the_engine_is_a_true_status(
    refusal: EngineError, status: int, code: str
) -> None:
    server = serve(ScriptedEngine([], refusal=refusal))
    visit = await Visit(server, "POST", CHAT, body()).end()
    assert (visit.status, visit.json()["error"]["code"]) == (status, code)
    assert (await Visit(server, "GET", "/v1/sluice/stats").end()).json()["running"] == 0


async def test_a_failure_in_mid_stream_ends_with_an_error_and_no_done() -> None:
    script = [*word_frames("a", "b")[:1], EngineFailed("the engine broke")]
    visit = await Visit(serve(ScriptedEngine(script)), "POST", CHAT, body()).end()
    assert visit.status == 200
    assert [sorted(event) for event in visit.events()] == [["choices", "sluice"], ["error"]]


async def test_a_client_that_leaves_aborts_its_sequence_and_is_no_longer_counted() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    visit = Visit(server, "POST", CHAT, body())
    await visit.until_parts(1)
    assert (await Visit(server, "GET", "/v1/sluice/stats").end()).json()["running"] == 1
    visit.leave()
    await visit.end()
    assert engine.aborted == ["req_1"]
    assert not engine.open
    assert (await Visit(server, "GET", "/v1/sluice/stats").end()).json()["running"] == 0


async def test_a_client_that_leaves_before_the_first_frame_leaves_nothing_behind() -> None:
    engine = ScriptedEngine([], ends=False)
    visit = Visit(serve(engine), "POST", CHAT, body())
    visit.leave()
    await visit.end()
    assert not engine.open


async def test_a_call_that_the_server_cancels_is_closed_too() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    visit = Visit(server, "POST", CHAT, body())
    await visit.until_parts(1)
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    assert not engine.open
    assert (await Visit(server, "GET", "/v1/sluice/stats").end()).json()["running"] == 0


async def test_a_draining_worker_finishes_what_it_has_and_takes_nothing_new() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    running = Visit(server, "POST", CHAT, body())
    await running.until_parts(1)
    drained = await Visit(server, "POST", "/v1/sluice/drain").end()
    assert (drained.json()["draining"], drained.json()["running"]) == (True, 1)
    late = await Visit(server, "POST", CHAT, body()).end()
    assert (late.status, late.json()["error"]["code"]) == (503, "worker_draining")
    assert len(engine.requests) == 1
    assert not running.task.done()
    running.leave()
    await running.end()


async def test_draining_can_be_taken_back() -> None:
    server = serve(ScriptedEngine(word_frames("a")))
    await Visit(server, "POST", "/v1/sluice/drain", {"draining": True}).end()
    await Visit(server, "POST", "/v1/sluice/drain", {"draining": False}).end()
    assert (await Visit(server, "POST", CHAT, body()).end()).status == 200


async def test_stats_say_how_long_nothing_was_asked() -> None:
    clock = Clock()
    server = serve(ScriptedEngine(word_frames("a")), clock)
    clock.now_s += 5
    await Visit(server, "POST", CHAT, body()).end()
    clock.now_s += 2.5
    stats = (await Visit(server, "GET", "/v1/sluice/stats").end()).json()
    assert (stats["last_active_ms_ago"], stats["draining"]) == (2500, False)
    assert {"running", "queued", "gauges", "tokens_out_total"} <= set(stats)


async def test_health_is_the_engines() -> None:
    well = await Visit(serve(ScriptedEngine([])), "GET", "/v1/sluice/health").end()
    ill = await Visit(serve(ScriptedEngine([], broken="step")), "GET", "/v1/sluice/health").end()
    assert (well.status, ill.status) == (200, 503)


@pytest.mark.parametrize(("broken", "answer"), [(None, "complete"), ("no model", "failed")])
async def test_a_start_that_fails_says_why(broken: str | None, answer: str) -> None:
    said: list[Any] = []
    inbox = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> dict[str, str]:
        return next(inbox)

    async def send(message: Any) -> None:
        said.append(message)

    await serve(ScriptedEngine([], broken=broken))({"type": "lifespan"}, receive, send)
    assert said[0]["type"] == f"lifespan.startup.{answer}"
    assert said[0].get("message") == broken
    assert said[1]["type"] == "lifespan.shutdown.complete"


async def test_the_app_may_be_mounted_below_a_prefix_and_knows_no_other_path() -> None:
    server = serve(ScriptedEngine([]))
    below = await Visit(server, "GET", "/v1/sluice/health", root_path="/pool-a").end()
    unknown = await Visit(server, "GET", "/v1/models").end()
    assert (below.status, unknown.status) == (200, 404)
