"""Clients that teams already have, against the real stack: OpenAI's and Anthropic's for Node,
litellm, and Anthropic's for Python."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import anthropic
import pytest

from tests.journeys.calls import SMALL, said
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT
from tests.stack_process import environment

NODE = ROOT / "tests" / "clients" / "node"
CLIENT_S = 200


def variables(stack: Stack, tenant: Tenant) -> dict[str, str]:
    return environment() | {"SLUICE_BASE_URL": stack.base_url, "SLUICE_KEY": tenant.secret}


@pytest.mark.timeout(CLIENT_S + 60)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            "openai.test.mjs",
            marks=pytest.mark.client(
                "openai (Node)",
                "It handles chat, completions, embeddings, responses, streams, tools,"
                " structured output and errors.",
            ),
        ),
        pytest.param(
            "anthropic.test.mjs",
            marks=pytest.mark.client(
                "@anthropic-ai/sdk",
                "It handles whole and streamed messages, token counts and errors.",
            ),
        ),
    ],
)
def test_node_client_is_at_home_here(stack: Stack, tenant: Tenant, script: str) -> None:
    node = shutil.which("node")
    assert node, "no Node: these tests need Node 20 or later, in the path"
    assert (NODE / "node_modules").is_dir(), "no client for Node: requirements/install.sh test"
    limited = stack.tenant(requests_per_minute=60, request_burst=1)
    broke = stack.tenant(budget_usd="0")
    keys = {"SLUICE_KEY_LIMITED": limited.secret, "SLUICE_KEY_BROKE": broke.secret}
    done = subprocess.run(
        [node, "--test", "--test-reporter=spec", script],
        cwd=NODE,
        env=variables(stack, tenant) | keys,
        capture_output=True,
        text=True,
        timeout=CLIENT_S,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert stack.requests_of(broke) == []


@pytest.mark.timeout(CLIENT_S + 60)
@pytest.mark.client(
    "litellm",
    "It handles chat, completions, embeddings, tools, structured output and errors, over OpenAI's"
    " and Anthropic's API.",
)
def test_litellm_is_at_home_here(stack: Stack, tenant: Tenant, outside: Outside) -> None:
    """Chat, texts, responses, vectors, Anthropic's shape; tools, forms, usage, retries, errors."""
    outside.begin(Script(thoughts=("A ", "fox?")))
    limited = stack.tenant(requests_per_minute=60, request_burst=1)
    broke = stack.tenant(budget_usd="0")
    keys = {"SLUICE_KEY_LIMITED": limited.secret, "SLUICE_KEY_BROKE": broke.secret}
    done = subprocess.run(
        [sys.executable, "-m", "tests.clients.litellm_calls"],
        cwd=ROOT,
        env=variables(stack, tenant) | keys,
        capture_output=True,
        text=True,
        timeout=CLIENT_S,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    for whole in (found["whole"], found["anthropic"]):
        assert whole["choices"][0]["message"]["content"]
        assert whole["usage"]["completion_tokens"] <= 8
    for streamed in (found["streamed"], found["anthropic_streamed"]):
        assert streamed["text"]
        prompt, output, total = streamed["usage"]
        assert prompt and 0 < output <= 8 and total == prompt + output
    assert found["awaited"] and found["text"]
    for used in (found["used"], found["used_streamed"], found["anthropic_used"]):
        assert used["name"] == "weather"
        assert_weather(used["arguments"])
    assert found["used_streamed"]["finish_reason"] == "tool_calls"
    assert found["used"]["then"] in ("stop", "length")
    assert_weather(found["formed"])
    assert found["response"]["status"] in ("completed", "incomplete")
    assert 0 < found["response"]["output_tokens"] <= 16, "litellm asks for no fewer"
    assert found["thought"] == [{"reasoning": "A fox?", "text": "Once upon a time."}] * 2
    assert found["embedding"] == [384, 384]
    assert found["limited"] == ["nothing", "RateLimitError"]
    assert found["retried"] == "nothing", "it waits as long as it is told to"
    assert len(stack.requests_of(limited)) == 2
    assert (found["broke"], stack.requests_of(broke)) == ("RateLimitError", [])
    assert found["unknown"] == "NotFoundError"
    assert found["wrong_key"] == "AuthenticationError"
    assert found["bad"] == "BadRequestError"
    assert found["too_long"] == "ContextWindowExceededError"


def assert_weather(arguments: str) -> None:
    """What the schema of `litellm_calls` has."""
    said = json.loads(arguments)
    assert said.keys() == {"town", "days"}
    assert said["town"] in ("Ulm", "Bonn") and 1 <= said["days"] <= 14


@pytest.mark.client("anthropic", "It handles whole and streamed messages, and errors.")
def test_anthropic_python_client_is_at_home_here(stack: Stack, tenant: Tenant) -> None:
    with anthropic.Anthropic(api_key=tenant.secret, base_url=stack.base_url) as client:
        answer = client.messages.create(model=SMALL, max_tokens=8, messages=said())
        assert answer.content[0].text
        with client.messages.stream(model=SMALL, max_tokens=8, messages=said()) as stream:
            assert "".join(stream.text_stream) == stream.get_final_message().content[0].text
        with pytest.raises(anthropic.NotFoundError):
            client.messages.create(model="claude-none", max_tokens=8, messages=said())
