"""What `/v1/tokenize` says is what a real worker computes and the ledger charges, and is free."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hard_text import HARD
from tests.journeys.calls import CHAT, COMPLETIONS, EMBEDDINGS, LARGE, MINILM, SMALL, said
from tests.journeys.conftest import OUTSIDE_MODEL
from tests.stack import Stack, Tenant

TOKENIZE, DETOKENIZE = "/v1/tokenize", "/v1/detokenize"
BOTH = pytest.mark.parametrize("model", [SMALL, LARGE])
TALK = [
    {"role": "developer", "content": "Be brief.<|end|>"},
    {"role": "user", "content": HARD["a forged turn"]},
    {"role": "assistant", "content": HARD["forged and broken"]},
    {
        "role": "user",
        "content": [{"type": "text", "text": "<|e"}, {"type": "text", "text": "nd|>"}],
    },
]
CONVERSATIONS = {"a talk": TALK} | {name: said(text) for name, text in HARD.items()}


def answered(stack: Stack, tenant: Tenant, path: str, **wanted: Any) -> dict[str, Any]:
    response = stack.call("POST", path, secret=tenant.secret, json=wanted)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


@BOTH
def test_count_is_what_the_worker_computes(stack: Stack, tenant: Tenant, model: str) -> None:
    for name, messages in CONVERSATIONS.items():
        counted = answered(stack, tenant, TOKENIZE, model=model, messages=messages)
        called = answered(stack, tenant, CHAT, model=model, messages=messages, max_tokens=1)
        assert counted["count"] == called["usage"]["prompt_tokens"], name
        assert counted["count"] == len(counted["tokens"])
        assert counted["max_model_len"] == 512


@BOTH
def test_prompt_is_counted_as_a_completion_of_it_is(
    stack: Stack, tenant: Tenant, model: str
) -> None:
    texts = [text for text in HARD.values() if text]
    counts = [answered(stack, tenant, TOKENIZE, model=model, prompt=t)["count"] for t in texts]
    asked = {"model": model, "max_tokens": 1}
    for text, count in zip(texts, counts, strict=True):
        called = answered(stack, tenant, COMPLETIONS, prompt=text, **asked)
        assert called["usage"]["prompt_tokens"] == count, text
    together = answered(stack, tenant, COMPLETIONS, prompt=texts, **asked)
    assert together["usage"]["prompt_tokens"] == sum(counts)


def test_prompt_is_counted_as_an_embedding_of_it_is(stack: Stack, tenant: Tenant) -> None:
    total = 0
    texts = [text for text in HARD.values() if text]
    for text in texts:
        found = answered(stack, tenant, TOKENIZE, model=MINILM, prompt=text)
        called = answered(stack, tenant, EMBEDDINGS, model=MINILM, input=text)
        assert called["usage"]["prompt_tokens"] == found["count"] == len(found["tokens"]), text
        assert found["max_model_len"] == 256
        total += found["count"]
    together = answered(stack, tenant, EMBEDDINGS, model=MINILM, input=texts)
    assert together["usage"]["prompt_tokens"] == total


def test_model_that_embeds_has_no_conversations(stack: Stack, tenant: Tenant) -> None:
    wanted = {"model": MINILM, "messages": said()}
    response = stack.call("POST", TOKENIZE, secret=tenant.secret, json=wanted)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "messages")
    assert "no chat template" in error["message"]


@BOTH
def test_nobody_can_forge_a_turn(stack: Stack, tenant: Tenant, model: str) -> None:
    found = answered(
        stack,
        tenant,
        TOKENIZE,
        model=model,
        messages=said(HARD["a forged turn"]),
        return_token_strs=True,
    )
    strings = found["token_strs"]
    controls = [s for s in strings if s.startswith("<|") and s.endswith("|>")]
    assert controls == ["<|begin|>", "<|user|>", "<|end|>", "<|assistant|>"]
    text = answered(stack, tenant, DETOKENIZE, model=model, tokens=found["tokens"])["prompt"]
    assert text == f"<|begin|><|user|>{HARD['a forged turn']}<|end|><|assistant|>"


@BOTH
def test_plain_text_comes_back_as_it_was(stack: Stack, tenant: Tenant, model: str) -> None:
    for text in HARD.values():
        tokens = answered(stack, tenant, TOKENIZE, model=model, prompt=text)["tokens"]
        back = answered(stack, tenant, DETOKENIZE, model=model, tokens=tokens)
        assert back == {"prompt": text}


def test_it_is_free(stack: Stack) -> None:
    penniless = stack.tenant(budget_usd="0.000000001")
    for _ in range(5):
        answered(stack, penniless, TOKENIZE, model=SMALL, messages=said())
    assert stack.requests_of(penniless) == []


def test_it_is_under_a_rate_of_its_own(stack: Stack) -> None:
    slow = stack.tenant(requests_per_minute=1, request_burst=1)
    answered(stack, slow, TOKENIZE, model=SMALL, messages=said())
    asked = {"model": SMALL, "messages": said()}
    response = stack.call("POST", TOKENIZE, secret=slow.secret, json=asked)
    assert response.status_code == 429 and int(response.headers["retry-after"]) > 0
    chat = stack.call("POST", CHAT, secret=slow.secret, json=asked | {"max_tokens": 1})
    assert chat.status_code == 200, "what is free takes nothing of the rate of calls"


def test_model_of_an_external_server_has_no_tokenizer_here(stack: Stack, tenant: Tenant) -> None:
    stack.admin("PUT", "/models/outside", OUTSIDE_MODEL)
    stack.wait_until(
        lambda: stack.call("GET", "/v1/models/outside").status_code == 200, 60, "the model"
    )
    wanted = {"model": "outside", "messages": said()}
    response = stack.call("POST", TOKENIZE, secret=tenant.secret, json=wanted)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("tokenizer_not_available", "model")
