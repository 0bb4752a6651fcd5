"""Whatever a client gets wrong: the exact error object, nothing charged, nothing left behind."""

from __future__ import annotations

import json
from typing import Any

import httpx2 as httpx
import openai
import pytest

from tests.journeys.calls import CHAT, COMPLETIONS, EMBEDDINGS, LONG_TEXT, SMALL, body, said
from tests.stack import Stack, Tenant

ERROR_KEYS = {"message", "type", "param", "code"}


def refused(
    stack: Stack, tenant: Tenant, content: bytes | dict[str, Any], **options: Any
) -> httpx.Response:
    """A call that is refused with a whole error object and leaves no trace in the ledger."""
    payload = content if isinstance(content, bytes) else json.dumps(content).encode()
    response = stack.call("POST", CHAT, secret=tenant.secret, content=payload, **options)
    assert_error(response)
    assert stack.requests_of(tenant) == []
    return response


def assert_error(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    assert error.keys() == ERROR_KEYS
    assert error["message"] and error["type"]
    assert response.headers["x-request-id"].startswith("req_")
    assert response.headers["content-type"] == "application/json"
    return error


BROKEN = {
    "nothing": b"",
    "half an object": b'{"model": "sluice-small", "messages": [',
    "an array": b"[1, 2]",
    "a number": b"17",
    "not UTF-8": b'{"model": "\xff\xfe"}',
    "a hundred thousand brackets": b"[" * 100_000,
    "NaN": b'{"model": "sluice-small", "temperature": NaN}',
    "half a surrogate pair": b'{"model": "sluice-small", "messages": '
    b'[{"role": "user", "content": "\\ud800"}]}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_body_that_is_no_json_object_is_refused(
    stack: Stack, tenant: Tenant, content: bytes
) -> None:
    response = refused(stack, tenant, content)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


WRONG: dict[str, tuple[dict[str, Any], str | None, str | None]] = {
    "model is a number": ({"model": 5}, "model", "invalid_type"),
    "model is missing": ({"model": None}, "model", "missing_required_parameter"),
    "messages is missing": ({"messages": None}, "messages", "missing_required_parameter"),
    "messages is a string": ({"messages": "hi"}, "messages", "invalid_type"),
    "messages is empty": ({"messages": []}, "messages", "empty_array"),
    "a message is a string": ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
    "an unknown role": (
        {"messages": [{"role": "robot", "content": "x"}]},
        "messages[0].role",
        "invalid_value",
    ),
    "content is a number": (
        {"messages": [{"role": "user", "content": 5}]},
        "messages[0].content",
        "invalid_type",
    ),
    "an image that is nowhere": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].image_url.url",
        None,
    ),
    "temperature is a string": ({"temperature": "hot"}, "temperature", "invalid_type"),
    "temperature is too high": ({"temperature": 2.1}, "temperature", "invalid_value"),
    "top_p is negative": ({"top_p": -0.1}, "top_p", "invalid_value"),
    "max_tokens is zero": ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    "max_tokens is a truth": ({"max_tokens": True}, "max_tokens", "invalid_type"),
    "max_tokens is a fraction": ({"max_tokens": 1.5}, "max_tokens", "invalid_type"),
    "five stops": ({"stop": list("abcde")}, "stop", "invalid_value"),
    "an empty stop": ({"stop": ""}, "stop", "invalid_type"),
    "stream is a string": ({"stream": "yes"}, "stream", "invalid_type"),
    "seed is a string": ({"seed": "x"}, "seed", "invalid_type"),
    "seed is beyond 64 bits": ({"seed": 2**80}, "seed", None),
    "too many answers": ({"n": 129}, "n", "invalid_value"),
    "likely tokens alone": ({"top_logprobs": 2}, "top_logprobs", None),
    "a tool without a function": ({"tools": [{"type": "function"}]}, "tools[0].function", None),
    "an unknown argument": ({"frobnicate": 1}, "frobnicate", None),
    "an unknown stream option": (
        {"stream_options": {"speed": 1}},
        "stream_options.speed",
        None,
    ),
    "an unknown tier": ({"service_tier": "gold"}, "service_tier", "invalid_value"),
    "a prompt beyond the window": (
        {"messages": said(LONG_TEXT * 5)},
        "messages",
        "context_length_exceeded",
    ),
    "an answer beyond the window": (
        {"max_tokens": 100_000},
        "messages",
        "context_length_exceeded",
    ),
}


@pytest.mark.parametrize(("wrong", "param", "code"), WRONG.values(), ids=WRONG.keys())
def test_wrong_argument_is_named(
    stack: Stack, tenant: Tenant, wrong: dict[str, Any], param: str | None, code: str | None
) -> None:
    response = refused(stack, tenant, body() | wrong)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, param)
    assert error["type"] == "invalid_request_error"
    if code is not None:
        assert error["code"] == code


def test_client_raises_bad_request_with_code_and_param(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model=SMALL, messages=said(), temperature=3)
    assert (raised.value.code, raised.value.param) == ("invalid_value", "temperature")
    assert raised.value.request_id.startswith("req_")


@pytest.mark.parametrize("stream", [False, True])
def test_unknown_model_is_not_found(client: openai.OpenAI, stream: bool) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.chat.completions.create(model="gpt-none", messages=said(), stream=stream)
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("secret", ["sk-sluice-wrong", "x", "sk-sluice-" + "0" * 4000])
def test_wrong_key_is_an_authentication_error(stack: Stack, secret: str) -> None:
    with stack.openai(secret) as client, pytest.raises(openai.AuthenticationError) as raised:
        client.chat.completions.create(model=SMALL, messages=said())
    assert raised.value.code == "invalid_api_key"
    assert secret not in raised.value.message


@pytest.mark.parametrize("header", ["", "Basic abc", "Bearer"])
def test_request_without_a_bearer_key_is_refused(stack: Stack, header: str) -> None:
    response = stack.call("POST", CHAT, headers={"authorization": header}, json=body())
    assert response.status_code == 401
    assert assert_error(response)["code"] == "invalid_api_key"


def test_key_is_checked_before_the_body(stack: Stack) -> None:
    response = stack.call("POST", CHAT, secret="sk-sluice-wrong", content=b"{")
    assert response.status_code == 401


def test_revoked_key_stops(stack: Stack, tenant: Tenant) -> None:
    assert stack.call("GET", "/v1/models", secret=tenant.secret).status_code == 200
    stack.admin("DELETE", f"/keys/{tenant.key}")
    stack.wait_until(
        lambda: stack.call("GET", "/v1/models", secret=tenant.secret).status_code == 401,
        5.0,
        "the revoked key to stop",
    )
    with stack.openai(tenant.secret) as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model=SMALL, messages=said())


def test_model_without_a_price_is_refused_never_free(stack: Stack, tenant: Tenant) -> None:
    unpriced = {"path": None, "context_tokens": 100, "max_output_tokens": 50}
    stack.admin("PUT", "/models/unpriced", unpriced | {"size_rank": 3, "quality": 0.1})
    error = refused(stack, tenant, body("unpriced")).json()["error"]
    assert error["code"] == "model_not_priced"
    stack.admin("DELETE", "/models/unpriced")
    response = refused(stack, tenant, body("unpriced"))
    assert response.status_code == 404


def test_too_large_a_body_is_refused(stack: Stack, tenant: Tenant) -> None:
    response = refused(stack, tenant, body(text="x" * 300_000))
    assert response.status_code == 413


def test_unknown_path_and_method_are_openai_errors(stack: Stack, tenant: Tenant) -> None:
    for method, path, status in (
        ("GET", "/v1/nothing", 404),
        ("GET", CHAT, 405),
        ("GET", COMPLETIONS, 405),
        ("GET", EMBEDDINGS, 405),
        ("DELETE", "/v1/models", 405),
        ("GET", "/v1/generations/req_none", 404),
    ):
        response = stack.call(method, path, secret=tenant.secret)
        assert response.status_code == status, path
        assert_error(response)


@pytest.mark.parametrize("given", ["soon", "-5", "0", "1e3", "99999999999"])
def test_wrong_deadline_is_refused(stack: Stack, tenant: Tenant, given: str) -> None:
    response = refused(stack, tenant, body(), headers={"x-sluice-deadline-ms": given})
    assert response.status_code == 400


def test_value_at_its_edge_is_taken(client: openai.OpenAI) -> None:
    for edge in ({"top_p": 0}, {"temperature": 2}, {"seed": -(2**63)}, {"stop": list("1234")}):
        answer = client.chat.completions.create(model=SMALL, messages=said(), max_tokens=2, **edge)
        assert answer.usage.completion_tokens > 0, edge
