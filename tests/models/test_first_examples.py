"""What people try first ends by itself: bodies as clients and frameworks send them, to the engine
with each of the two checkpoints, at the temperature of the protocol. The same examples go through
the whole stack in `tests/journeys/test_first_examples.py`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema
import pytest
import pytest_asyncio

from tests.stack_config import ROOT
from workers.deployments.bodies import ChatBody, decoded, generation_requests
from workers.engines.base import Engine, EngineSettings, FinishReason
from workers.engines.chat import TemplateChat
from workers.engines.registry import engine_named

pytestmark = pytest.mark.asyncio(loop_scope="module")

DRAWS = 3


def said(*turns: str) -> list[dict[str, str]]:
    """Turns of the user, after those of the system."""
    *rules, text = turns
    return [*({"role": "system", "content": rule} for rule in rules), *user(text)]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def of_class(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    """As pydantic writes the schema of a class."""
    titled = {key: {"title": key.title()} | inner for key, inner in properties.items()}
    return {"properties": titled, "required": list(titled), "title": name, "type": "object"}


def tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def form(name: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema} | more}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
PERSON = of_class("User", {"name": STRING, "age": INTEGER})
CITY = of_class("CityLocation", {"city": STRING, "country": STRING})
JOKE = of_class("Joke", {"setup": STRING, "punchline": STRING, "rating": INTEGER})
EVENT = of_class(
    "CalendarEvent",
    {"name": STRING, "date": STRING, "participants": {"type": "array", "items": STRING}},
)
STEPS = of_class(
    "MathReasoning",
    {
        "steps": {
            "type": "array",
            "items": of_class("Step", {"explanation": STRING, "output": STRING}),
        },
        "final_answer": STRING,
    },
)
WEATHER = tool("get_weather", "Get weather for a given city.", of_class("W", {"city": STRING}))
HOROSCOPE = tool("get_horoscope", "Get today's horoscope.", of_class("H", {"sign": STRING}))
DICE = tool("roll_dice", "Roll a six-sided die and return the result.", of_class("R", {}))
PLAYER = tool("get_player_name", "Get the player's name.", of_class("P", {}))
EXTRACT = tool(
    "User", "Correctly extracted `User` with all the required parameters with correct types", PERSON
)
FINAL = tool("final_result", "The final response which ends this conversation", CITY)
FORCED = {"type": "function", "function": {"name": "User"}}
TRANSLATOR = (
    "You are a helpful assistant that translates English to French. Translate the user sentence."
)

EXAMPLES: dict[str, dict[str, Any]] = {
    "openai: say this": {"messages": said("Say this is a test")},
    "openai: unicorn": {"messages": said("Write a one-sentence bedtime story about a unicorn.")},
    "openai: pirate": {
        "messages": said(
            "Talk like a pirate.", "How do I check if a Python object is an instance of a class?"
        )
    },
    "openai: event": {
        "messages": said(
            "Extract the event information.",
            "Alice and Bob are going to a science fair on Friday.",
        ),
        "response_format": form("CalendarEvent", EVENT, strict=True),
    },
    "openai: steps": {
        "messages": said("You are a helpful math tutor.", "how can I solve 8x + 7 = -23"),
        "response_format": form("MathReasoning", STEPS),
    },
    "openai: json": {
        "messages": said(
            "You are a helpful assistant designed to output JSON.",
            "Who won the world series in 2020?",
        ),
        "response_format": {"type": "json_object"},
    },
    "openai: horoscope": {
        "messages": said("What is my horoscope? I am an Aquarius."),
        "tools": [HOROSCOPE],
    },
    "anthropic: hello": {"messages": said("Hello, Claude"), "max_tokens": 1024},
    "anthropic: search": {
        "messages": said(
            "What should I search for to find the latest developments in renewable energy?"
        ),
        "max_tokens": 1024,
    },
    "anthropic: weather": {
        "messages": said("What is the weather like in San Francisco?"),
        "tools": [WEATHER],
        "max_tokens": 1024,
    },
    "instructor: tools": {
        "messages": said("John Doe is 30 years old"),
        "tools": [EXTRACT],
        "tool_choice": FORCED,
    },
    "instructor: json": {
        "messages": said(
            "As a genius expert, your task is to understand the content and provide the parsed "
            "objects in json that match the following json_schema:\n\n" + json.dumps(PERSON),
            "Extract Jason is 25 years old.",
        ),
        "response_format": {"type": "json_object"},
    },
    "langchain: french": {"messages": said(TRANSLATOR, "I love programming.")},
    "langchain: joke": {
        "messages": said("Tell me a joke about cats"),
        "response_format": form("Joke", JOKE, strict=True),
    },
    "langchain: agent": {
        "messages": said("You are a helpful assistant", "what is the weather in sf"),
        "tools": [WEATHER],
    },
    "langchain: agent, told": {
        "messages": [
            *said("You are a helpful assistant", "what is the weather in sf"),
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "a",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": '{"city": "sf"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "a", "content": "It's always sunny in sf!"},
        ],
        "tools": [WEATHER],
    },
    "pydantic-ai: hello": {
        "messages": said(
            "Be concise, reply with one sentence.", 'Where does "hello world" come from?'
        )
    },
    "pydantic-ai: olympics": {
        "messages": said("Where were the olympics held in 2012?"),
        "tools": [FINAL],
        "tool_choice": "required",
    },
    "pydantic-ai: dice": {
        "messages": said("You're a dice game, you should roll the die.", "My guess is 4"),
        "tools": [DICE, PLAYER],
    },
}


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=["sluice-small", "sluice-large"]
)
async def speaker(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Engine, TemplateChat]]:
    folder = ROOT / "models" / str(request.param)
    engine = engine_named("continuous", EngineSettings(folder, context_tokens=4096))
    await engine.start()
    yield engine, TemplateChat(folder)
    await engine.stop()


async def answered(
    speaker: tuple[Engine, TemplateChat], example: dict[str, Any], number: int
) -> tuple[str, FinishReason | None]:
    engine, chat = speaker
    fields = {"max_tokens": 2048, "seed": number} | example
    told = {"sluice": {"request_id": f"r{number}"}}
    body = decoded(json.dumps(fields | told).encode(), ChatBody)
    guide = body.guide()
    constraint = None if guide is None else await engine.constrain(guide)
    prompt = chat.prompt_token_ids(body.messages, body.offered)
    asked = generation_requests(body, [prompt], choices_max=1, constraint=constraint)[0]
    frames = [frame async for frame in engine.generate(asked)]
    return "".join(frame.text for frame in frames), frames[-1].finish_reason


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_first_example_ends_by_itself(
    speaker: tuple[Engine, TemplateChat], name: str
) -> None:
    example = EXAMPLES[name]
    for number in range(DRAWS):
        greedy = {"temperature": 0} if number == 0 else {}
        text, reason = await answered(speaker, example | greedy, number)
        assert reason is FinishReason.STOP, text[-200:]
        if "response_format" in example:
            schema = example["response_format"].get("json_schema", {}).get("schema", {})
            jsonschema.validate(json.loads(text), schema)
        if "tool_choice" in example:
            assert text.startswith("<tool_call>") and text.endswith("</tool_call>")
