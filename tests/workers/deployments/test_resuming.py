"""A call that goes on at another worker is, with what its caller has already, the call that was
never cut: text, calls of tools, log probabilities, ends and counts of each choice."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workers.deployments.asgi import SECRET, Clock, Visit, serve
from tests.workers.engines.conftest import MODEL_PATH
from tests.workers.engines.simulated.cards import H100
from workers.deployments.parts import parts_named
from workers.deployments.server import WorkerServer
from workers.engines.base import EngineSettings
from workers.engines.fake import ScriptedEngine, word_frames
from workers.engines.names import SIMULATED

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
STORY = [{"role": "user", "content": "Tell me a story about a fox."}]
PLACE = {"type": "object", "properties": {"town": {"enum": ["Ulm", "Bonn"]}}, "required": ["town"]}
TOOLS = [{"type": "function", "function": {"name": "weather", "strict": True, "parameters": PLACE}}]
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "a conversation": (CHAT, {"messages": STORY, "logprobs": 1, "stop": [". The", " and"]}),
    "calls of tools": (
        CHAT,
        {"messages": STORY, "tools": TOOLS, "tool_choice": "required", "n": 2, "temperature": 1.5},
    ),
    "several prompts": (
        COMPLETIONS,
        {"prompt": ["Once upon a time", "The fox was"], "n": 2, "presence_penalty": 0.8},
    ),
}
Events = list[dict[str, Any]]


class Workers:
    """One real worker, visited from one loop."""

    def __init__(self, runner: asyncio.Runner, engine: str) -> None:
        bounds = EngineSettings(
            MODEL_PATH,
            slots=4,
            context_tokens=256,
            frame_interval_s=0.0,
            roofline=H100.at(1000.0),
        )
        parts = parts_named(engine, bounds)
        self.lacks = ("logprobs", "presence_penalty") if engine == SIMULATED else ()
        self._runner = runner
        self._server = WorkerServer(
            engine=parts.engine, doors=parts.doors, secret=SECRET, now_s=Clock()
        )
        self._salts = count()
        runner.run(parts.engine.start())
        self.stop = lambda: runner.run(parts.engine.stop())

    def events(self, path: str, body: dict[str, Any], resume: object = None) -> Events:
        """The events of a call in a cache of its own."""
        own = {"request_id": "req_1", "cache_salt": f"{next(self._salts)}", "immediate": True}
        told = body | {"sluice": own | ({"resume": resume} if resume else {})}
        return self._runner.run(self._visited(path, told))

    async def _visited(self, path: str, body: dict[str, Any]) -> Events:
        visit = await Visit(self._server, "POST", path, body).end()
        *events, done = visit.events()
        assert (visit.status, done) == (200, "[DONE]")
        return events


@pytest.fixture(scope="module", params=["continuous", SIMULATED])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers]:
    with asyncio.Runner() as runner:
        made = Workers(runner, request.param)
        yield made
        made.stop()


@dataclass
class Told:
    """What the events of one choice say together."""

    text: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)
    frames: list[list[int]] = field(default_factory=list)
    finish: tuple[Any, Any] = (None, None)

    @property
    def tokens(self) -> list[int]:
        return [token for frame in self.frames for token in frame]


def told(events: Events) -> dict[int, Told]:
    choices: dict[int, Told] = defaultdict(Told)
    for event in events:
        [choice] = event["choices"]
        of = choices[choice["index"]]
        of.text += choice["delta"]["content"]
        for piece in choice["delta"].get("tool_calls", ()):
            if "id" in piece:
                assert piece["index"] not in of.calls, "a call has one beginning"
                of.calls[piece["index"]] = [piece["id"], piece["function"]["name"], ""]
            of.calls[piece["index"]][2] += piece["function"]["arguments"]
        for entry in (choice["logprobs"] or {"content": []})["content"]:
            of.logprobs.append((entry["bytes"], pytest.approx(entry["logprob"], abs=1e-3)))
        of.frames.append(event["sluice"]["token_ids"])
        if choice["finish_reason"]:
            of.finish = (choice["finish_reason"], choice.get("stop_reason"))
    return choices


def resume_of(events: Events, choices: int) -> dict[str, Any]:
    came, usage = told(events), events[-1]["sluice"]["usage"]
    return {
        "choices": [
            {"frames": came[n].frames, "finished": came[n].finish[0] is not None}
            for n in range(choices)
        ],
        "input": usage["input"],
        "cached_input": usage["cached_input"],
    }


@pytest.mark.parametrize("kind", CALLS)
@settings(max_examples=5)
@given(seed=st.integers(0, 30), places=st.lists(st.floats(0, 1), min_size=1, max_size=2))
def test_call_that_goes_on_is_the_one_that_was_never_cut(
    workers: Workers, kind: str, seed: int, places: list[float]
) -> None:
    """Also one that goes on twice."""
    path, fields = CALLS[kind]
    body = {"temperature": 1.0, "max_tokens": 24, "seed": seed} | fields
    body = {name: value for name, value in body.items() if name not in workers.lacks}
    whole = workers.events(path, body)
    undisturbed = told(whole)
    came, left = [], whole
    for place in places:
        cut = round(place * (len(left) - 1))
        came = came + left[:cut]
        resume = resume_of(came, len(undisturbed)) if came else None
        left = workers.events(path, body, resume)
    together = came + left
    whole_again = told(together)
    for index, expected in undisturbed.items():
        again = whole_again[index]
        assert again.tokens == expected.tokens
        assert (again.text, again.calls) == (expected.text, expected.calls)
        assert (again.logprobs, again.finish) == (expected.logprobs, expected.finish)
    positions = [event["sluice"]["position"] for event in together]
    assert positions == sorted(positions)
    last, expected_last = together[-1]["sluice"], whole[-1]["sluice"]
    assert last["position"] == expected_last["position"]
    assert prompt_tokens(last) == prompt_tokens(expected_last)


def prompt_tokens(sluice: dict[str, Any]) -> int:
    return int(sluice["usage"]["input"] + sluice["usage"]["cached_input"])


@asynccontextmanager
async def refused(resume: object, **fields: object) -> AsyncIterator[tuple[Visit, ScriptedEngine]]:
    engine = ScriptedEngine(word_frames("a"))
    told = {"sluice": {"request_id": "req_1", "resume": resume}, "prompt": [[1, 2]]} | fields
    visit = await Visit(serve(engine), "POST", COMPLETIONS, told).end()
    yield visit, engine


@pytest.mark.parametrize(
    "choices",
    [[], [{}, {}], [{"finished": True}], [{"frames": [["a"]]}], [{"frames": 5}]],
)
async def test_an_impossible_prefix_is_refused(choices: Sequence[object]) -> None:
    resume = {"choices": choices, "input": 2, "cached_input": 0}
    async with refused(resume) as (visit, engine):
        assert visit.status == 400
        assert not engine.requests, "nothing was admitted"


async def test_prompt_that_was_begun_elsewhere_counts_as_it_was_counted_there() -> None:
    """Of two prompts the second one had not begun."""
    engine = ScriptedEngine(word_frames("a", "b"))
    resume = {"choices": [{"frames": [[7]]}, {}], "input": 1, "cached_input": 40}
    own = {"request_id": "req_1", "resume": resume}
    body = {"prompt": [[1, 2], [3]], "sluice": own}
    visit = await Visit(serve(engine), "POST", COMPLETIONS, body).end()
    *events, _ = visit.events()
    usage = events[-1]["sluice"]["usage"]
    assert (usage["input"], usage["cached_input"]) == (1 + 3, 40)
    assert [request.answer_prefix for request in engine.requests] == [((7,),), ()]
