"""The measure itself: it takes what OpenAI sends, and notices what OpenAI would not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.openai_api.extract import FILE, LICENCE
from tests.openai_api.valid import EXTENSIONS, WHOLE, assert_answer, wrong

CHAT: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "service_tier": "default",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi", "refusal": None, "annotations": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "cost": "0.1"},
}
CHUNK: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}],
    "usage": None,
    "sluice": {"pool": "p"},
}
ERROR = {"error": {"message": "no", "type": "t", "param": None, "code": None}}


def test_schemas_say_where_they_come_from_and_under_which_licence() -> None:
    told = json.loads(FILE.read_text())
    assert told["source"].endswith("openai/openai-openapi")
    assert told["version"] and told["licence"] == LICENCE
    assert EXTENSIONS.keys() <= told["components"]["schemas"].keys()
    assert set(WHOLE.values()) <= told["components"]["schemas"].keys()


def test_what_openai_sends_is_valid() -> None:
    assert wrong("CreateChatCompletionResponse", CHAT) == []
    assert wrong("CreateChatCompletionStreamResponse", CHUNK) == []
    assert wrong("ErrorResponse", ERROR) == []


@pytest.mark.parametrize(
    "change",
    [
        {"object": "chat"},
        {"created": "now"},
        {"choices": [CHAT["choices"][0] | {"finish_reason": "done"}]},
        {"usage": CHAT["usage"] | {"price": 1}},
        {"system_fingerprint": None},
        {"sluice": {}},
    ],
    ids=str,
)
def test_what_openai_would_not_send_is_noticed(change: dict[str, Any]) -> None:
    assert wrong("CreateChatCompletionResponse", CHAT | change)


def test_error_has_four_keys_and_no_more() -> None:
    for error in ({"message": "no", "type": "t", "param": None}, ERROR["error"] | {"meta": 1}):
        with pytest.raises(AssertionError):
            body = json.dumps({"error": error}).encode()
            assert_answer("/admin/v1/keys", 400, "application/json", body)
    with pytest.raises(AssertionError):
        assert_answer("/v1/models", 404, "text/plain", b"Not Found")
