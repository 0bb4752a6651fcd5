"""`/v1/completions` from the official client to the ledger, on real workers and outside."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from tests.journeys.calls import (
    COMPLETIONS,
    LARGE,
    MINILM,
    SMALL,
    chunks_of,
    nano,
    rid_of,
    streamed,
)
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant

TRIES = 6
PROMPT = "Once upon a time there was a fox who"
INPUT_NANO, CACHED_NANO, OUTPUT_NANO = 50, 12.5, 200
"""Of SMALL, per token."""


def tokens_of(stack: Stack, prompt: str, model: str = SMALL) -> list[int]:
    found = stack.call("POST", "/v1/tokenize", json={"model": model, "prompt": prompt}).json()
    tokens: list[int] = found["tokens"]
    return tokens


def test_whole_answer_is_what_the_client_expects(client: openai.OpenAI) -> None:
    answer = client.completions.create(model=SMALL, prompt=PROMPT, temperature=0)
    assert answer.id.startswith("cmpl-")
    assert (answer.object, answer.model) == ("text_completion", SMALL)
    [choice] = answer.choices
    assert (choice.index, choice.logprobs) == (0, None)
    assert choice.finish_reason in ("stop", "length")
    assert choice.text
    assert 1 <= answer.usage.completion_tokens <= 16, "what OpenAI documents as the default"


def test_stream_says_the_same_as_the_whole_answer(client: openai.OpenAI) -> None:
    asked = {"model": SMALL, "prompt": PROMPT, "temperature": 0, "max_tokens": 24}
    whole = client.completions.create(**asked)
    parts, used = [], None
    with client.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    ) as stream:
        for chunk in stream:
            parts += [choice.text for choice in chunk.choices]
            used = chunk.usage or used
    assert "".join(parts) == whole.choices[0].text
    assert used.completion_tokens == whole.usage.completion_tokens


def test_tokens_of_a_prompt_give_what_the_prompt_gives(stack: Stack, client: openai.OpenAI) -> None:
    ids = tokens_of(stack, PROMPT)
    asked = {"model": SMALL, "temperature": 0, "max_tokens": 12, "echo": True}
    text = client.completions.create(prompt=PROMPT, **asked)
    array = client.completions.create(prompt=ids, **asked)
    assert text.choices[0].text == array.choices[0].text
    assert text.choices[0].text.startswith(PROMPT)
    assert text.usage.prompt_tokens == array.usage.prompt_tokens == len(ids)


def test_several_prompts_with_several_answers_each(stack: Stack, client: openai.OpenAI) -> None:
    prompts = [PROMPT, "A baker"]
    raw = client.completions.with_raw_response.create(
        model=SMALL, prompt=prompts, n=3, temperature=1, seed=7, max_tokens=10, echo=True
    )
    answer = raw.parse()
    assert [choice.index for choice in answer.choices] == list(range(6))
    assert all(c.text.startswith(prompts[c.index // 3]) for c in answer.choices)
    assert len({choice.text for choice in answer.choices}) > 2, "samples differ"
    counted = sum(len(tokens_of(stack, prompt)) for prompt in prompts)
    assert answer.usage.prompt_tokens == counted, "each prompt once, whatever n"
    assert 6 <= answer.usage.completion_tokens <= 60
    booked = stack.generation(raw.headers["x-request-id"])
    used = booked["usage"]
    assert used["input"] + used["cached_input"] == counted
    assert used["output"] == answer.usage.completion_tokens
    exact = INPUT_NANO * used["input"] + CACHED_NANO * used["cached_input"]
    exact += OUTPUT_NANO * used["output"]
    assert abs(nano(booked["cost_usd"]) - exact) <= 0.5
    assert raw.headers["x-sluice-cost-usd"] == booked["cost_usd"]


def test_same_seed_gives_the_same_samples(client: openai.OpenAI) -> None:
    def texts() -> list[str]:
        answer = client.completions.create(model=SMALL, prompt=PROMPT, n=2, seed=3, max_tokens=8)
        return [choice.text for choice in answer.choices]

    assert texts() == texts()


def test_stream_of_several_choices_ends_once_and_costs_what_is_booked(
    stack: Stack, tenant: Tenant
) -> None:
    wanted = {
        "model": SMALL,
        "prompt": [PROMPT, "A baker"],
        "n": 2,
        "max_tokens": 20,
        "echo": True,
        "stream_options": {"include_usage": True},
    }
    found = streamed(stack, tenant, wanted, path=COMPLETIONS)
    assert found[-1] == "[DONE]"
    *chunks, last = chunks_of(found)
    ends = [c["choices"][0]["index"] for c in chunks if c["choices"][0]["finish_reason"]]
    assert sorted(ends) == [0, 1, 2, 3]
    firsts = {c["choices"][0]["index"]: c["choices"][0]["text"] for c in reversed(chunks)}
    assert [firsts[index] for index in range(4)] == [PROMPT, PROMPT, "A baker", "A baker"]
    booked = stack.generation(rid_of(last["id"]))
    assert last["usage"]["cost"] == booked["cost_usd"]
    assert last["usage"]["completion_tokens"] == booked["usage"]["output"]


def test_log_probabilities_of_every_token(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=SMALL, prompt=PROMPT, temperature=0, max_tokens=10, logprobs=3
    )
    [choice] = answer.choices
    scores = choice.logprobs
    assert len(scores.tokens) == answer.usage.completion_tokens
    for token, logprob, top in zip(
        scores.tokens, scores.token_logprobs, scores.top_logprobs, strict=True
    ):
        assert logprob <= 0
        assert 3 <= len(top) <= 4
        assert top[token] == max(top.values()), "the likeliest was taken"
    assert scores.text_offset == sorted(scores.text_offset)
    for token, offset in zip(scores.tokens, scores.text_offset, strict=True):
        if choice.text[offset:]:
            assert choice.text[offset:].startswith(token)


def test_chat_has_log_probabilities_and_several_answers(client: openai.OpenAI) -> None:
    said = [{"role": "user", "content": "Tell me a story about a fox."}]
    asked = {"model": SMALL, "messages": said, "max_tokens": 6, "seed": 1}
    answer = client.chat.completions.create(**asked, n=2, logprobs=True, top_logprobs=2)
    assert [choice.index for choice in answer.choices] == [0, 1]
    scored = [choice.logprobs.content for choice in answer.choices]
    assert sum(map(len, scored)) == answer.usage.completion_tokens
    assert all(len(token.top_logprobs) == 2 for tokens in scored for token in tokens)
    streamed: dict[int, str] = {0: "", 1: ""}
    count = 0
    with client.chat.completions.create(**asked, n=2, logprobs=True, stream=True) as stream:
        for chunk in stream:
            [choice] = chunk.choices
            streamed[choice.index] += choice.delta.content or ""
            count += len(choice.logprobs.content) if choice.logprobs else 0
    assert [streamed[i] for i in (0, 1)] == [c.message.content for c in answer.choices]
    assert count == answer.usage.completion_tokens


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"prompt": ""}, "prompt", "empty_string"),
        ({"prompt": ["a", "word " * 600]}, "prompt[1]", "context_length_exceeded"),
        ({"prompt": [10**6]}, "prompt", "invalid_value"),
        ({"model": MINILM}, "model", "model_not_supported"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_every_no_is_exact(
    stack: Stack, tenant: Tenant, changes: dict[str, object], param: str, code: str
) -> None:
    wanted = {"model": SMALL, "prompt": PROMPT, "max_tokens": 4} | changes
    response = stack.call("POST", COMPLETIONS, secret=tenant.secret, json=wanted)
    error = response.json()["error"]
    assert (response.status_code, error["param"], error["code"]) == (400, param, code)


def test_echo_has_log_probabilities_of_the_prompt_too(client: openai.OpenAI) -> None:
    asked: Any = {"model": SMALL, "prompt": PROMPT, "max_tokens": 4, "temperature": 0}
    plain = client.completions.create(**asked, logprobs=0)
    echoed = client.completions.create(**asked, echo=True, logprobs=0).choices[0]
    scores = echoed.logprobs.token_logprobs
    assert "".join(echoed.logprobs.tokens) == echoed.text == PROMPT + plain.choices[0].text
    assert len(scores) == plain.usage.total_tokens
    assert scores[0] is None and all(score <= 0 for score in scores[1:])


def test_client_that_leaves_stops_every_choice(stack: Stack, client: openai.OpenAI) -> None:
    """The gauges that must come to zero after each journey are those of the worker too."""
    for _ in range(TRIES):  # a quick worker may be done before it hears of it
        with client.completions.create(
            model=LARGE, prompt=[PROMPT, "A baker"], n=8, max_tokens=200, temperature=2, stream=True
        ) as stream:
            first = next(iter(stream))
        booked = stack.generation(rid_of(first.id))
        if booked["status"] == "cancelled":
            break
    assert booked["status"] == "cancelled"
    assert booked["usage"]["output"] < 16 * 200


# --- outside -------------------------------------------------------------------------------------


def test_server_outside_is_asked_in_its_own_words(
    stack: Stack, client: openai.OpenAI, outside: Outside
) -> None:
    answer = client.completions.create(model="outside", prompt=PROMPT, n=2, echo=True)
    assert [choice.text for choice in answer.choices] == [f"{PROMPT}Once upon a time."] * 2
    assert answer.usage.completion_tokens == 8, "what it says itself"
    [sent] = outside.bodies
    assert (sent["prompt"], sent["n"], sent["max_tokens"]) == (PROMPT, 2, 16)
    assert not sent.get("stream"), "so short an answer is asked for in one piece"
    assert "echo" not in sent and "sluice" not in sent


def test_stream_from_outside_that_is_cut_is_an_error_and_charged_what_came(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    outside.begin(Script(cut_after=3))
    wanted = {"model": "outside", "prompt": PROMPT, "n": 2}
    found = streamed(stack, tenant, wanted, path=COMPLETIONS)
    *chunks, last = chunks_of(found)
    assert "[DONE]" not in found
    assert last["error"]["code"] == "upstream_disconnected"
    booked = stack.generation(rid_of(chunks[0]["id"]))
    assert (booked["status"], booked["usage"]["output"]) == ("failed", 6)


def test_ids_cannot_be_echoed_without_their_tokenizer(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    wanted = {"model": "outside", "prompt": [1, 2], "echo": True}
    response = stack.call("POST", COMPLETIONS, secret=tenant.secret, json=wanted)
    error = response.json()["error"]
    found = (response.status_code, error["param"], error["code"])
    assert found == (400, "model", "tokenizer_not_available")
