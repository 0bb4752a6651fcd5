"""Answers by a schema, from the official client to a worker: parsed, streamed, cut and refused."""

from __future__ import annotations

import json
from enum import StrEnum

import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field

from tests.journeys.calls import LARGE, SMALL, nano, said
from tests.stack import Stack


class Sky(StrEnum):
    CLEAR = "clear"
    CLOUDY = "cloudy"


class Hour(BaseModel):
    sky: Sky
    degrees: int = Field(ge=-40, le=50)


class Weather(BaseModel):
    rain: bool
    hours: list[Hour] = Field(max_length=3)


TOWN = {
    "type": "object",
    "properties": {"town": {"enum": ["Ulm", "Bonn"]}, "people": {"type": "integer", "minimum": 0}},
    "required": ["town", "people"],
    "additionalProperties": False,
}


def by_schema(schema: object, *, strict: bool = True) -> dict[str, object]:
    named = {"name": "town", "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": named}


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_the_clients_parse_helper_gets_its_own_class(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.parse(
        model=model, messages=said(), response_format=Weather, temperature=1.2, seed=3
    )
    [choice] = answer.choices
    assert choice.finish_reason == "stop"
    assert isinstance(choice.message.parsed, Weather)


def test_a_stream_by_a_schema_is_parsed_by_the_clients_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=SMALL, messages=said(), response_format=Weather, seed=5
    ) as stream:
        for _ in stream:
            pass
        found = stream.get_final_completion()
    assert isinstance(found.choices[0].message.parsed, Weather)


def test_every_choice_has_the_form_whatever_is_drawn(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL, messages=said(), response_format=by_schema(TOWN), n=8, temperature=2, seed=1
    )
    for choice in answer.choices:
        assert choice.finish_reason in ("stop", "length")
        if choice.finish_reason == "stop":
            jsonschema.validate(json.loads(choice.message.content), TOWN)
    assert any(choice.finish_reason == "stop" for choice in answer.choices)


def test_a_json_object_is_one_and_log_probabilities_come_with_it(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL,
        messages=said(),
        response_format={"type": "json_object"},
        max_tokens=60,
        logprobs=True,
        top_logprobs=2,
    )
    [choice] = answer.choices
    assert choice.message.content.startswith("{")
    assert choice.logprobs is not None and choice.logprobs.content
    if choice.finish_reason == "stop":
        assert isinstance(json.loads(choice.message.content), dict)


def test_a_cut_answer_says_so(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL, messages=said(), response_format=by_schema(TOWN), max_completion_tokens=2
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 2


@pytest.mark.parametrize(
    ("schema", "why"),
    [({"type": "objekt"}, "objekt"), ({"type": "object", "not": {}}, "not")],
)
def test_a_schema_nobody_can_follow_is_named_and_costs_nothing(
    stack: Stack, client: openai.OpenAI, schema: object, why: str
) -> None:
    with pytest.raises(openai.BadRequestError, match=why) as caught:
        client.chat.completions.create(
            model=SMALL, messages=said(), response_format=by_schema(schema)
        )
    assert caught.value.param == "response_format.json_schema.schema"
    assert caught.value.code == "invalid_json_schema"
    booked = stack.generation(caught.value.response.headers["x-request-id"])
    assert nano(booked["cost_usd"]) == 0


def test_biases_and_penalties_reach_the_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL,
        messages=said(),
        logit_bias={"300": 100},
        max_tokens=4,
        logprobs=True,
        presence_penalty=0.1,
    )
    content = answer.choices[0].logprobs.content
    assert len({token.token for token in content}) == 1
    with pytest.raises(openai.BadRequestError, match="2048") as caught:
        client.chat.completions.create(model=SMALL, messages=said(), logit_bias={"2048": 1})
    assert caught.value.param == "logit_bias"
