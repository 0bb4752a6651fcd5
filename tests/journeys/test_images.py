"""Images of a conversation: to a server outside that sees them, and to nobody else."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.journeys.calls import SMALL
from tests.journeys.conftest import OUTSIDE_MODEL, OUTSIDE_POOL, OUTSIDE_PRICES
from tests.journeys.outside import Outside, Script
from tests.stack import Stack

IMAGE_TOKENS = 700
LOOK: Any = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ],
    }
]


@pytest.fixture
def seeing(stack: Stack, outside: Outside) -> str:
    stack.admin("PUT", "/models/seeing", OUTSIDE_MODEL | {"image_tokens": IMAGE_TOKENS})
    pool = OUTSIDE_POOL | {"model": "seeing", "base_url": outside.base_url}
    stack.admin("PUT", "/pools/seeing", pool)
    stack.add_prices("seeing", OUTSIDE_PRICES)
    return "seeing"


def test_an_image_reaches_a_server_that_sees(
    client: openai.OpenAI, outside: Outside, seeing: str
) -> None:
    outside.begin(Script())
    answer = client.chat.completions.create(model=seeing, messages=LOOK, max_tokens=20)
    assert answer.choices[0].message.content == "Once upon a time."
    [sent] = outside.bodies
    assert sent["messages"] == LOOK
    assert client.models.retrieve(seeing).model_dump()["capabilities"]["vision"]


def test_images_are_held_for_as_many_tokens_as_declared(client: openai.OpenAI, seeing: str) -> None:
    six = [{"role": "user", "content": LOOK[0]["content"][1:] * 6}]
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=seeing, messages=six)  # type: ignore[arg-type]
    assert caught.value.code == "context_length_exceeded", "6 times 700 are more than 4096"


@pytest.mark.parametrize("model", [SMALL, "outside"])
def test_every_other_model_refuses_the_part_by_name(
    client: openai.OpenAI, outside: Outside, model: str
) -> None:
    with pytest.raises(openai.BadRequestError, match="image_url is only supported") as caught:
        client.chat.completions.create(model=model, messages=LOOK)
    assert caught.value.param == "messages[0].content[1]"
    assert outside.bodies == []
