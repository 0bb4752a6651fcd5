"""What people try first: the examples on the first pages of clients and frameworks end by
themselves, with the clients' own settings, and what has a form has it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any, Literal

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.journeys.calls import said
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT
from tests.stack_process import environment

FRAMEWORKS = ROOT / ".venv-clients" / "frameworks" / "bin" / "python"
SCRIPT_S = 300
WHOLE = {"context_tokens": 4096, "max_output_tokens": 2048, "size_rank": 0, "quality": 0}
POOL = {"capacity_class": "on_demand", "idle_s": 60, "num_cpus": 0.1, "cost_nanousd_per_s": 10**9}
ENDED = ("stop", "tool_calls")

pytestmark = [pytest.mark.timeout(SCRIPT_S + 120)]


@pytest.fixture(scope="module", params=["sluice-small", "sluice-large"])
def model(stack: Stack, request: pytest.FixtureRequest) -> Iterator[str]:
    """The checkpoint with all its context, as `sluice.toml` serves it."""
    name = f"whole-{request.param}"
    stack.admin("PUT", f"/models/{name}", WHOLE | {"path": str(ROOT / "models" / request.param)})
    stack.admin("PUT", f"/pools/{name}", POOL | {"model": name})
    stack.add_prices(name, {"input": "1", "cached_input": "1", "output": "1"})
    yield name
    stack.admin("DELETE", f"/pools/{name}")
    stack.admin("DELETE", f"/models/{name}")
    stack.wait_until(lambda: name not in stack.fleet(), 60, "the pool to leave the fleet")


class CalendarEvent(BaseModel):
    name: str
    date: str
    participants: list[str]


class Sentiment(BaseModel):
    label: Literal["positive", "negative", "neutral"]
    score: float
    details: dict[str, int]


HOROSCOPE = {
    "type": "object",
    "properties": {
        "sign": {
            "type": "string",
            "description": "An astrological sign like Taurus or Aquarius",
        }
    },
    "required": ["sign"],
}


@pytest.mark.client(
    "openai", "The first examples of its documentation get answers that end by themselves."
)
def test_openais_first_examples_end(client: openai.OpenAI, model: str) -> None:
    for text in ("Say this is a test", "How do I check if a Python object is an instance?"):
        answer = client.chat.completions.create(model=model, messages=said(text))
        assert answer.choices[0].finish_reason == "stop"
    story = client.responses.create(
        model=model, input="Write a one-sentence bedtime story about a unicorn."
    )
    assert story.status == "completed" and story.output_text
    event = client.chat.completions.parse(
        model=model,
        messages=[
            {"role": "system", "content": "Extract the event information."},
            {
                "role": "user",
                "content": "Alice and Bob are going to a science fair on Friday.",
            },
        ],
        response_format=CalendarEvent,
    ).choices[0]
    assert event.finish_reason == "stop" and event.message.parsed is not None
    parsed = client.responses.parse(
        model=model, input="I love this lamp, it works very well.", text_format=Sentiment
    )
    assert parsed.status == "completed" and parsed.output_parsed is not None


def test_openais_function_is_called_and_its_result_told(client: openai.OpenAI, model: str) -> None:
    function = {"name": "get_horoscope", "description": "Get today's horoscope.", "strict": True}
    closed = HOROSCOPE | {"additionalProperties": False}
    tools: list[Any] = [{"type": "function", "function": function | {"parameters": closed}}]
    turns: list[Any] = said("What is my horoscope? I am an Aquarius.")
    called = client.chat.completions.create(model=model, messages=turns, tools=tools).choices[0]
    assert called.finish_reason in ENDED
    forced = client.chat.completions.create(
        model=model, messages=turns, tools=tools, tool_choice="required"
    ).choices[0]
    calls = forced.message.tool_calls or []
    assert forced.finish_reason == "tool_calls"
    assert all(json.loads(call.function.arguments).keys() == {"sign"} for call in calls)
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": "Next Tuesday you meet an otter."}
        for call in calls
    ]
    turns += [forced.message.model_dump(exclude_none=True), *results]
    told = client.chat.completions.create(model=model, messages=turns, tools=tools).choices[0]
    assert told.finish_reason in ENDED


OPEN: dict[str, Any] = {
    "a free string": {"type": "object", "properties": {"text": {"type": "string"}}},
    "an integer": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    "an open object": {"type": "object", "additionalProperties": True},
    "a list": {"type": "object", "properties": {"all": {"type": "array"}}, "required": ["all"]},
}


@pytest.mark.parametrize("name", OPEN)
def test_what_a_schema_leaves_open_ends(client: openai.OpenAI, model: str, name: str) -> None:
    form: Any = {"type": "json_schema", "json_schema": {"name": "open", "schema": OPEN[name]}}
    tool: Any = {"type": "function", "function": {"name": "keep", "parameters": OPEN[name]}}
    for seed in range(2):
        asked: dict[str, Any] = {"model": model, "messages": said("Who lives here?"), "seed": seed}
        answer = client.chat.completions.create(**asked, response_format=form).choices[0]
        assert answer.finish_reason == "stop"
        assert isinstance(json.loads(answer.message.content or ""), dict)
        call = client.chat.completions.create(
            **asked, tools=[tool], tool_choice="required", parallel_tool_calls=False
        ).choices[0]
        assert call.finish_reason == "tool_calls"


@pytest.mark.client(
    "anthropic", "The first examples of its documentation get answers that end by themselves."
)
def test_anthropics_first_examples_end(stack: Stack, tenant: Tenant, model: str) -> None:
    with anthropic.Anthropic(api_key=tenant.secret, base_url=stack.base_url) as client:
        for text in (
            "Hello, Claude",
            "What should I search for to find the latest developments in renewable energy?",
        ):
            answer = client.messages.create(model=model, max_tokens=1024, messages=said(text))
            assert answer.stop_reason == "end_turn" and answer.content[0].text
        tool: Any = {
            "name": "get_weather",
            "description": "Get the current weather in a given location",
            "input_schema": {
                "type": "object",
                "properties": {"location": {"type": "string"}},
                "required": ["location"],
            },
        }
        used = client.messages.create(
            model=model,
            max_tokens=1024,
            tools=[tool],
            messages=said("What is the weather like in San Francisco?"),
        )
        assert used.stop_reason in ("tool_use", "end_turn")


@pytest.mark.long
@pytest.mark.client(
    "instructor", "It makes typed objects from text: by tools, by JSON, by Anthropic's tools."
)
@pytest.mark.client(
    "langchain", "It runs answers, tools, typed output, streams and an agent, over both APIs."
)
@pytest.mark.client("pydantic-ai-slim", "It runs answers, typed output and tools, over both APIs.")
def test_frameworks_first_examples_end(stack: Stack, tenant: Tenant, model: str) -> None:
    assert FRAMEWORKS.exists(), "requirements/install.sh client frameworks"
    variables = {
        "SLUICE_BASE_URL": stack.base_url,
        "SLUICE_KEY": tenant.secret,
        "SLUICE_MODEL": model,
    }
    done = subprocess.run(
        [str(FRAMEWORKS), "tests/clients/frameworks/first_examples.py"],
        cwd=ROOT,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=SCRIPT_S,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for way, ended in (("tools", ENDED), ("json", ("stop",)), ("anthropic", ("tool_use",))):
        assert found["instructor"][way]["ended"] in ended
    for api in ("openai", "anthropic"):
        chain = found["langchain"][api]
        assert chain["said"][1] in ("stop", "end_turn") and chain["said"][0]
        assert chain["called"][1] in ("tool_calls", "stop", "tool_use", "end_turn")
        assert chain["joke"]["setup"] and chain["joke"]["punchline"]
        assert chain["agent"][1] in ("stop", "end_turn")
        typed = found["pydantic-ai"][api]
        assert typed["said"][1] == typed["dice"][1] == "stop"
        assert typed["where"].keys() == {"city", "country"}
    assert found["langchain"]["streamed"]
