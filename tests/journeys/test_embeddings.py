"""`/v1/embeddings` from the official client to the ledger, on a real model and outside."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.journeys.calls import EMBEDDINGS, MINILM, SMALL, nano
from tests.journeys.conftest import OUTSIDE_MODEL, OUTSIDE_POOL
from tests.journeys.outside import Outside
from tests.stack import Stack, Tenant

FOX, FOX_AGAIN, TAX = "The fox ran over the hill.", "A fox runs up a hill.", "Pay the tax by May."
NUMBERS = 384
INPUT_NANO = 10
"""Of MINILM, per token."""


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def counted(stack: Stack, text: str) -> int:
    found = stack.call("POST", "/v1/tokenize", json={"model": MINILM, "prompt": text}).json()
    count: int = found["count"]
    return count


def test_first_call_starts_the_model_from_zero_and_is_answered(
    stack: Stack, client: openai.OpenAI
) -> None:
    stack.wait_until(lambda: not stack.replicas("minilm"), 60.0, "the pool to be at zero")
    answer = client.embeddings.create(model=MINILM, input=FOX)
    assert len(answer.data[0].embedding) == NUMBERS


def test_vectors_are_what_the_client_expects(client: openai.OpenAI) -> None:
    """The client asks for base64 unless told otherwise, and decodes it itself."""
    answer = client.embeddings.create(model=MINILM, input=[FOX, FOX_AGAIN, TAX])
    assert (answer.object, answer.model) == ("list", MINILM)
    assert [item.index for item in answer.data] == [0, 1, 2]
    fox, again, tax = (item.embedding for item in answer.data)
    assert all(math.isclose(cosine(v, v), 1.0, abs_tol=1e-5) for v in (fox, again, tax))
    assert cosine(fox, again) > 0.7 > 0.3 > cosine(fox, tax)


def test_both_formats_hold_the_same_numbers(stack: Stack, tenant: Tenant) -> None:
    def vector(encoding_format: str) -> Any:
        wanted = {"model": MINILM, "input": FOX, "encoding_format": encoding_format}
        response = stack.call("POST", EMBEDDINGS, secret=tenant.secret, json=wanted)
        return response.json()["data"][0]["embedding"]

    raw = b64decode(vector("base64"))
    assert vector("float") == list(struct.unpack(f"<{NUMBERS}f", raw))


def test_fewer_dimensions_are_the_first_ones_at_length_one(client: openai.OpenAI) -> None:
    [whole] = client.embeddings.create(model=MINILM, input=FOX).data
    [short] = client.embeddings.create(model=MINILM, input=FOX, dimensions=64).data
    assert len(short.embedding) == 64
    assert math.isclose(cosine(short.embedding, short.embedding), 1.0, abs_tol=1e-5)
    first = whole.embedding[:64]
    assert math.isclose(cosine(short.embedding, first) ** 2, cosine(first, first), rel_tol=1e-4)


def test_tokens_of_a_text_give_the_vector_of_the_text(stack: Stack, client: openai.OpenAI) -> None:
    found = stack.call("POST", "/v1/tokenize", json={"model": MINILM, "prompt": FOX}).json()
    text = client.embeddings.create(model=MINILM, input=FOX)
    ids = client.embeddings.create(model=MINILM, input=found["tokens"])
    assert math.isclose(cosine(text.data[0].embedding, ids.data[0].embedding), 1.0, abs_tol=1e-5)
    assert text.usage.prompt_tokens == ids.usage.prompt_tokens == found["count"]


def test_cost_is_the_same_in_header_body_and_ledger(stack: Stack, client: openai.OpenAI) -> None:
    texts = [FOX, TAX, FOX_AGAIN * 3]
    raw = client.embeddings.with_raw_response.create(model=MINILM, input=texts)
    answer = raw.parse()
    tokens = sum(counted(stack, text) for text in texts)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == tokens
    booked = stack.generation(raw.headers["x-request-id"])
    assert booked["usage"] == {"input": tokens, "cached_input": 0, "output": 0}
    assert raw.headers["x-sluice-cost-usd"] == answer.usage.cost == booked["cost_usd"]
    assert nano(booked["cost_usd"]) == INPUT_NANO * tokens
    assert raw.headers["x-sluice-pool"] == booked["pool"] == "minilm"
    assert (booked["status"], booked["usage_source"]) == ("answered", "exact")


def test_large_batch_comes_back_in_order(client: openai.OpenAI) -> None:
    texts = [f"Number {number}" for number in range(300)]
    answer = client.embeddings.create(model=MINILM, input=texts)
    assert [item.index for item in answer.data] == list(range(300))
    [alone] = client.embeddings.create(model=MINILM, input=texts[137]).data
    assert cosine(alone.embedding, answer.data[137].embedding) > 0.9999


def test_auto_is_refused_for_its_vectors_could_not_be_compared(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="cannot be compared") as refused:
        client.embeddings.create(model="auto", input=FOX)
    assert refused.value.param == "model"


def test_models_say_what_they_are_for(stack: Stack) -> None:
    tasks = {m["id"]: m["task"] for m in stack.call("GET", "/v1/models").json()["data"]}
    assert (tasks[MINILM], tasks[SMALL]) == ("embed", "generate")


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"input": ""}, "input", "empty_string"),
        ({"input": ["a", "word " * 300]}, "input[1]", "context_length_exceeded"),
        ({"input": [10**6]}, "input", "invalid_value"),
        ({"dimensions": NUMBERS + 1}, "dimensions", "unsupported_parameter"),
        ({"model": SMALL}, "model", "model_not_supported"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_no_is_exact(
    stack: Stack, tenant: Tenant, changes: dict[str, object], param: str, code: str
) -> None:
    wanted = {"model": MINILM, "input": FOX} | changes
    response = stack.call("POST", EMBEDDINGS, secret=tenant.secret, json=wanted)
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, param, code)


# --- outside -------------------------------------------------------------------------------------


@pytest.fixture
def outside_vectors(stack: Stack, outside: Outside) -> Iterator[Outside]:
    """A model of their server that embeds."""
    stack.admin("PUT", "/models/outside-vectors", OUTSIDE_MODEL | {"task": "embed"})
    pool = OUTSIDE_POOL | {"model": "outside-vectors", "base_url": outside.base_url}
    stack.admin("PUT", "/pools/outside-vectors", pool)
    stack.add_prices("outside-vectors", {"input": "1", "output": "0"})
    yield outside
    stack.admin("DELETE", "/pools/outside-vectors")
    stack.admin("DELETE", "/models/outside-vectors")


def test_document_of_a_server_outside_is_an_answer_like_any_other(
    stack: Stack, client: openai.OpenAI, outside_vectors: Outside
) -> None:
    raw = client.embeddings.with_raw_response.create(model="outside-vectors", input=["a", "b"])
    answer = raw.parse()
    assert [item.embedding for item in answer.data] == [[0.5, 0.0], [0.5, -1.0]]
    assert answer.usage.prompt_tokens == 9, "what it says itself"
    [sent] = outside_vectors.bodies
    assert (sent["input"], sent["encoding_format"]) == (["a", "b"], "base64")
    assert "stream" not in sent and "sluice" not in sent
    booked = stack.generation(raw.headers["x-request-id"])
    assert booked["usage"] == {"input": 9, "cached_input": 0, "output": 0}
    assert nano(booked["cost_usd"]) == 9000
