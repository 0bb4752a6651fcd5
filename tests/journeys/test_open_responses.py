"""The requests of the Open Responses compliance suite, to a model here and to a server outside."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.journeys.calls import SMALL, opened
from tests.journeys.outside import Outside, Script
from tests.journeys.test_images import seeing
from tests.open_responses.asked import REQUESTS, Asked
from tests.open_responses.shapes import assert_response, assert_stream
from tests.stack import Stack, Tenant

__all__ = ["seeing"]
FIRST = {"index": 0, "id": "call_1", "type": "function"}
CALLED = ([FIRST | {"function": {"name": "get_weather", "arguments": '{"location": "Ulm"}'}}],)


def answered(stack: Stack, tenant: Tenant, asked: Asked, wanted: dict[str, Any]) -> Any:
    """The response, whichever way it came, in the specification's shapes."""
    if asked.stream:
        with opened(stack, tenant, wanted, path="/v1/responses") as response:
            lines = [line for line in response.iter_lines() if line.startswith("data: ")]
        found = assert_stream(json.loads(line.removeprefix("data: ")) for line in lines)
    else:
        found = stack.call("POST", "/v1/responses", secret=tenant.secret, json=wanted).json()
    assert_response(found)
    return found


@pytest.mark.parametrize("name", [name for name, asked in REQUESTS.items() if not asked.sees])
def test_a_model_here_answers_it(stack: Stack, tenant: Tenant, name: str) -> None:
    """The small model was never trained to call, so it is told to."""
    asked = REQUESTS[name]
    forced = {"tool_choice": "required", "parallel_tool_calls": False} if asked.tools else {}
    wanted = asked.body(SMALL) | forced | {"temperature": 0, "max_output_tokens": 64}
    found = answered(stack, tenant, asked, wanted)
    assert found["status"] in ("completed", "incomplete")
    assert asked.output in [item["type"] for item in found["output"]]


@pytest.mark.parametrize("name", REQUESTS)
def test_a_server_outside_answers_it(
    stack: Stack, tenant: Tenant, outside: Outside, seeing: str, name: str
) -> None:
    asked = REQUESTS[name]
    outside.begin(Script(words=(), tool_calls=CALLED) if asked.tools else Script())
    found = answered(stack, tenant, asked, asked.body(seeing))
    assert found["status"] == "completed"
    assert asked.output in [item["type"] for item in found["output"]]
