"""Several sequences as one call: `/v1/completions`, and `n` of either door."""

from dataclasses import replace
from typing import Any

import pytest

from tests.workers.deployments.asgi import Visit, serve
from workers.deployments.bodies import seed_of
from workers.deployments.server import WorkerServer
from workers.engines.base import (
    EngineFailed,
    EngineOverloaded,
    EngineStats,
    GenerationRequest,
    ScoredToken,
    TokenLogprobs,
    UnsupportedParameter,
)
from workers.engines.fake import ScriptedEngine, ScriptedStream, word_frames

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


def body(**fields: object) -> dict[str, object]:
    return {
        "prompt": ["ab"],
        "sluice": {"request_id": "req_1", "cache_salt": "org_1"},
    } | fields


def chat(**fields: object) -> dict[str, object]:
    return body(messages=[{"role": "user", "content": "one two"}], **fields)


async def stats(server: WorkerServer) -> Any:
    return (await Visit(server, "GET", "/v1/sluice/stats").end()).json()


class Choosy(ScriptedEngine):
    """Takes so many sequences and no more."""

    def __init__(self, taken: int) -> None:
        super().__init__(word_frames("a", "b")[:1], ends=False)
        self._taken = taken

    def generate(self, request: GenerationRequest) -> ScriptedStream:
        if len(self.open) == self._taken:
            raise EngineOverloaded("full")
        return super().generate(request)

    def abort(self, request_id: str) -> None:
        super().abort(request_id)
        self.open.pop(request_id, None)


async def test_prompts_are_strings_or_token_ids_and_each_has_n_choices() -> None:
    engine = ScriptedEngine(word_frames("a ", "b"))
    asked = body(prompt=["ab", [7, 8, 9]], n=2, max_tokens=5, seed=40, logprobs=3, stop=["X"])
    visit = await Visit(serve(engine), "POST", COMPLETIONS, asked).end()
    assert visit.status == 200
    assert [request.prompt_token_ids for request in engine.requests] == [
        (0, 97, 98),
        (0, 97, 98),
        (7, 8, 9),
        (7, 8, 9),
    ]
    assert [request.seed for request in engine.requests] == [40, 41, 40, 41]
    assert len({request.request_id for request in engine.requests}) == 4
    assert engine.requests[0].request_id == "req_1"
    assert {(r.tokens_max, r.logprobs, r.stop, r.cache_salt) for r in engine.requests} == {
        (5, 3, ("X",), "org_1")
    }
    *frames, done = visit.events()
    assert done == "[DONE]"
    for index in range(4):
        said = [f["choices"][0] for f in frames if f["choices"][0]["index"] == index]
        assert [each["delta"]["content"] for each in said] == ["a ", "b"]
        assert [each["finish_reason"] for each in said] == [None, "stop"]
    positions = [frame["sluice"]["position"] for frame in frames]
    assert positions == sorted(positions) == list(range(1, 9))
    assert frames[-1]["sluice"]["usage"] == {"input": 6, "cached_input": 0, "output": 8}


async def test_a_conversation_has_n_choices_too_and_its_own_seed_without_one() -> None:
    engine = ScriptedEngine(word_frames("a"))
    visit = await Visit(serve(engine), "POST", CHAT, chat(n=3)).end()
    assert {frame["choices"][0]["index"] for frame in visit.events()[:-1]} == {0, 1, 2}
    seed = seed_of("req_1")
    assert [request.seed for request in engine.requests] == [seed, seed + 1, seed + 2]
    assert [request.logprobs for request in engine.requests] == [None] * 3


async def test_log_probabilities_stand_beside_the_text() -> None:
    token, other = ScoredToken(1, "a", b"a", -0.5), ScoredToken(2, "\ufffd", b"\xe2", -1e9)
    scored = replace(word_frames("a")[0], logprobs=(TokenLogprobs(token, (token, other)),))
    visit = await Visit(serve(ScriptedEngine([scored])), "POST", CHAT, chat(logprobs=2)).end()
    said = {"token": "a", "bytes": [97], "logprob": -0.5}
    unlikely = {"token": "\ufffd", "bytes": [0xE2], "logprob": -9999.0}
    assert visit.events()[0]["choices"][0]["logprobs"] == {
        "content": [said | {"top_logprobs": [said, unlikely]}]
    }


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"prompt": "ab"}, "invalid_body"),
        ({"prompt": [[-1.5]]}, "invalid_body"),
        ({"prompt": [["a"]]}, "invalid_body"),
        ({"prompt": []}, "invalid_prompt"),
        ({"n": 0}, "invalid_body"),
        ({"logprobs": 21}, "invalid_body"),
        ({"logprobs": -1}, "invalid_body"),
        ({"max_tokens": 0}, "invalid_body"),
        ({"n": 9}, "too_many_choices"),
        ({"prompt": ["a"] * 3, "n": 3}, "too_many_choices"),
    ],
)
async def test_a_body_that_asks_for_nothing_sensible_starts_nothing(
    fields: dict[str, object], code: str
) -> None:
    engine = ScriptedEngine(word_frames("a"))
    server = serve(engine, choices_max=8)
    visit = await Visit(server, "POST", COMPLETIONS, body(**fields)).end()
    assert (visit.status, visit.json()["error"]["code"]) == (400, code)
    assert not engine.requests


async def test_what_an_engine_lacks_is_refused_by_its_name() -> None:
    refusal = UnsupportedParameter("this engine reports none", param="logprobs")
    server = serve(ScriptedEngine([], refusal=refusal))
    visit = await Visit(server, "POST", COMPLETIONS, body(logprobs=1)).end()
    error = visit.json()["error"]
    assert (visit.status, error["code"], error["param"]) == (
        400,
        "unsupported_parameter",
        "logprobs",
    )


async def test_a_call_is_taken_with_all_its_sequences_or_with_none() -> None:
    engine = Choosy(3)
    server = serve(engine)
    visit = await Visit(server, "POST", COMPLETIONS, body(n=4)).end()
    assert (visit.status, visit.json()["error"]["code"]) == (503, "server_is_overloaded")
    assert not engine.open
    assert (await stats(server))["running"] == 0
    taken = Visit(server, "POST", COMPLETIONS, body(n=3))
    await taken.until_parts(3)
    taken.leave()
    await taken.end()
    assert not engine.open


async def test_a_client_that_leaves_aborts_every_sequence() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    visit = Visit(server, "POST", COMPLETIONS, body(n=3))
    await visit.until_parts(3)
    visit.leave()
    await visit.end()
    assert set(engine.aborted) == {request.request_id for request in engine.requests}
    assert not engine.open
    assert "[DONE]" not in visit.events()


async def test_a_sequence_that_breaks_ends_the_call_with_an_error_and_closes_the_others() -> None:
    engine = ScriptedEngine([*word_frames("a", "b")[:1], EngineFailed("broken")])
    visit = await Visit(serve(engine), "POST", COMPLETIONS, body(n=2)).end()
    assert "error" in visit.events()[-1]
    assert not engine.open


async def test_an_id_is_in_flight_until_the_last_of_its_sequences_ended() -> None:
    engine = ScriptedEngine(word_frames("a", "b")[:1], ends=False)
    server = serve(engine)
    first = Visit(server, "POST", COMPLETIONS, body(n=2))
    await first.until_parts(2)
    again = await Visit(server, "POST", CHAT, chat()).end()
    assert (again.status, again.json()["error"]["code"]) == (409, "request_in_flight")
    assert len(engine.requests) == 2
    first.leave()
    await first.end()
    later = Visit(server, "POST", CHAT, chat())
    await later.until_parts(1)
    assert later.status == 200
    later.leave()
    await later.end()


async def test_a_call_of_many_sequences_is_one_and_waits_only_until_its_first_frame() -> None:
    class Busy(ScriptedEngine):
        def stats(self) -> EngineStats:
            return EngineStats(queued=5)

    unheard = Busy([], ends=False)
    server = serve(unheard)
    visit = Visit(server, "POST", COMPLETIONS, body(n=6))
    await visit.until_open()
    now = await stats(server)
    assert (now["running"], now["queued"]) == (0, 1)
    assert [(each["tier"], each["callers"]) for each in now["queues"]] == [("default", 1)]
    unheard.script = word_frames("a", "b")[:1]
    other = Visit(server, "POST", COMPLETIONS, body(n=6, sluice={"request_id": "req_2"}))
    await other.until_parts(1)
    now = await stats(server)
    assert (now["running"], now["queued"]) == (1, 1)
    assert [each["tier"] for each in now["queues"]] == ["default"], "the one that has not begun"
    for each in (visit, other):
        each.leave()
        await each.end()
    now = await stats(server)
    assert (now["running"], now["queued"]) == (0, 0)


async def test_a_draining_worker_takes_no_prompts() -> None:
    engine = ScriptedEngine(word_frames("a"))
    server = serve(engine)
    await Visit(server, "POST", "/v1/sluice/drain").end()
    visit = await Visit(server, "POST", COMPLETIONS, body()).end()
    assert (visit.status, visit.json()["error"]["code"]) == (503, "worker_draining")
    assert not engine.requests


async def test_a_lone_surrogate_is_a_bad_body() -> None:
    sent = b'{"prompt": ["\\ud800"], "sluice": {"request_id": "req_1"}}'
    visit = await Visit(serve(ScriptedEngine([])), "POST", COMPLETIONS, sent).end()
    assert visit.status == 400
