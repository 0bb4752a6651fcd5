"""The parameters of Open WebUI's chats, which it sends to any server of OpenAI's words: taken,
taken as hints, or refused with what to use instead."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.bodies.ollama import OLLAMA, RUNS
from tests.gateway.wire.bodies import refused

CHAT: dict[str, Any] = {
    "model": "tale",
    "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 0.7,
    "top_p": 0.9,
    "max_tokens": 64,
    "frequency_penalty": 0.5,
    "presence_penalty": 0.5,
    "seed": 7,
    "stop": ["END"],
    "logit_bias": {"5": 10},
    "reasoning_effort": "low",
    "tools": [],
}
HINTS: dict[str, Any] = {
    "num_ctx": 4096,
    "num_batch": 512,
    "num_keep": 24,
    "num_thread": 8,
    "num_gpu": 1,
    "use_mmap": True,
    "use_mlock": False,
    "keep_alive": "5m",
    "mirostat_eta": 0.1,
    "mirostat_tau": 5.0,
    "repeat_last_n": 64,
}
INSTEAD = {
    "mirostat": (2, "'temperature'"),
    "tfs_z": (0.9, "'temperature'"),
    "repeat_penalty": (1.1, "'repetition_penalty'"),
    "think": (True, "'reasoning_effort'"),
    "format": ("json", "'response_format'"),
    "template": ("{{ .Prompt }}", "a model has its own"),
}


def wanted(**fields: Any) -> Conversation:
    found = parse_chat(json.dumps(CHAT | fields).encode()).payload
    assert isinstance(found, Conversation)
    return found


def test_how_ollama_runs_a_model_is_a_hint() -> None:
    plain, hinted = wanted(), wanted(**HINTS, chat_id="c", session_id="s")
    assert HINTS.keys() == set(RUNS)
    assert hinted == plain
    assert plain.sampling.items() >= {"temperature": 0.7, "stop": ["END"], "seed": 7}.items()


@pytest.mark.parametrize("name", INSTEAD)
def test_what_would_change_the_answer_is_refused_with_what_to_use_instead(name: str) -> None:
    value, advice = INSTEAD[name]
    error = refused(parse_chat, CHAT | {name: value})
    assert (error.param, error.code) == (name, "unsupported_parameter")
    assert "Ollama" in error.message and advice in error.message


def test_a_hint_is_one_word() -> None:
    assert refused(parse_chat, CHAT | {"num_ctx": [4096]}).code == "invalid_type"
    assert refused(parse_chat, CHAT | {"mirostat": True}).param == "mirostat"


def test_every_option_is_one_of_these() -> None:
    assert OLLAMA.keys() == HINTS.keys() | INSTEAD.keys() | {"chat_id", "session_id"}
