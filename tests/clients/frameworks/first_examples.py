"""The first examples of instructor, langchain and pydantic-ai, as their pages have them, but for
the model's name. Prints what came as JSON; `SLUICE_MODEL` is the model. Run by the environment
of requirements/clients/frameworks.lock."""

from __future__ import annotations

import json
import os
import random
from typing import Any

import anthropic
import instructor
import openai
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, RunContext, UsageLimits
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

MODEL = os.environ["SLUICE_MODEL"]
BASE_URL = os.environ["SLUICE_BASE_URL"]
KEY = os.environ["SLUICE_KEY"]
OPENAI_URL = f"{BASE_URL}/v1"

Found = dict[str, Any]


class User(BaseModel):
    name: str
    age: int


class Joke(BaseModel):
    """Joke to tell user."""

    setup: str
    punchline: str


class CityLocation(BaseModel):
    city: str
    country: str


def of_instructor() -> Found:
    """README, "Extract structured data": by tools, by JSON and by Anthropic's tools."""
    own = instructor.from_openai(openai.OpenAI(base_url=OPENAI_URL, api_key=KEY))
    by_json = instructor.from_openai(
        openai.OpenAI(base_url=OPENAI_URL, api_key=KEY), mode=instructor.Mode.JSON
    )
    claude = instructor.from_anthropic(anthropic.Anthropic(base_url=BASE_URL, api_key=KEY))
    found: Found = {}
    for name, client, rest in (
        ("tools", own, {}),
        ("json", by_json, {}),
        ("anthropic", claude, {"max_tokens": 1024}),
    ):
        user, raw = client.chat.completions.create_with_completion(
            model=MODEL,
            response_model=User,
            messages=[{"role": "user", "content": "John Doe is 30 years old"}],
            max_retries=0,
            **rest,
        )
        ended = raw.stop_reason if name == "anthropic" else raw.choices[0].finish_reason
        found[name] = {"user": user.model_dump(), "ended": ended}
    return found


def get_weather(city: str) -> str:
    """Get weather for a given city."""
    return f"It's always sunny in {city}!"


def of_langchain() -> Found:
    """The chat model's page (translation, tools, structured output) and the README's agent."""
    chat = ChatOpenAI(model=MODEL, base_url=OPENAI_URL, api_key=KEY, max_retries=0)
    claude = ChatAnthropic(
        model=MODEL, base_url=BASE_URL, api_key=KEY, max_tokens=1024, max_retries=0
    )
    translate = [
        (
            "system",
            "You are a helpful assistant that translates English to French. Translate the user"
            " sentence.",
        ),
        ("human", "I love programming."),
    ]
    found: Found = {}
    for name, model in (("openai", chat), ("anthropic", claude)):
        said = model.invoke(translate)
        called = model.bind_tools([get_weather]).invoke("what is the weather like in Paris")
        joke = model.with_structured_output(Joke).invoke("Tell me a joke about cats")
        agent = create_agent(
            model=model, tools=[get_weather], system_prompt="You are a helpful assistant"
        )
        turns = agent.invoke(
            {"messages": [{"role": "user", "content": "what is the weather in sf"}]},
            {"recursion_limit": 12},
        )["messages"]
        found[name] = {
            "said": [said.text, ended_as(said)],
            "called": [[call["name"] for call in called.tool_calls], ended_as(called)],
            "joke": joke.model_dump(),
            "agent": [[turn.type for turn in turns], ended_as(turns[-1])],
        }
    named = init_chat_model(
        MODEL, model_provider="openai", base_url=OPENAI_URL, api_key=KEY, max_retries=0
    )
    streamed = [part.text for part in named.stream("Hello!")]
    return found | {"streamed": "".join(streamed)}


def ended_as(message: Any) -> str:
    told = message.response_metadata
    return str(told.get("finish_reason") or told.get("stop_reason"))


def of_pydantic_ai() -> Found:
    """README, "Hello world"; the pages on output and on tools (the dice game)."""
    chat = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=OPENAI_URL, api_key=KEY))
    provider = AnthropicProvider(
        anthropic_client=anthropic.AsyncAnthropic(base_url=BASE_URL, api_key=KEY)
    )
    claude = AnthropicModel(MODEL, provider=provider, settings={"max_tokens": 1024})
    found: Found = {}
    for name, model in (("openai", chat), ("anthropic", claude)):
        hello = Agent(model, instructions="Be concise, reply with one sentence.", retries=0)
        said = hello.run_sync('Where does "hello world" come from?')
        located = Agent(model, output_type=CityLocation, retries=0)
        where = located.run_sync("Where were the olympics held in 2012?")
        found[name] = {
            "said": [said.output, said.response.finish_reason],
            "where": where.output.model_dump(),
            "dice": dice(model),
        }
    return found


def dice(model: Any) -> list[Any]:
    game = Agent(
        model,
        deps_type=str,
        retries=0,
        system_prompt=(
            "You're a dice game, you should roll the die and see if the number "
            "you get back matches the user's guess. "
            "If so, tell them they're a winner. "
            "Use the player's name in the response."
        ),
    )

    @game.tool_plain
    def roll_dice() -> str:
        """Roll a six-sided die and return the result."""
        return str(random.Random(4).randint(1, 6))

    @game.tool
    def get_player_name(ctx: RunContext[str]) -> str:
        """Get the player's name."""
        return ctx.deps

    run = game.run_sync("My guess is 4", deps="Anne", usage_limits=UsageLimits(request_limit=6))
    return [run.output, run.response.finish_reason]


if __name__ == "__main__":
    print(
        json.dumps(
            {
                "instructor": of_instructor(),
                "langchain": of_langchain(),
                "pydantic-ai": of_pydantic_ai(),
            }
        )
    )
