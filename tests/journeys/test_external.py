"""A pool that is somebody else's server: the same journey, metered by what it says it used."""

from __future__ import annotations

import openai
import pytest

from tests.journeys.calls import CHAT, COMPLETIONS, body, chunks_of, nano, rid_of, said, streamed
from tests.journeys.conftest import OUTSIDE_MODEL, OUTSIDE_POOL
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant
from tests.stack_process import OUTSIDE_KEY

STORY = "Once upon a time."
INPUT_NANO, CACHED_NANO, OUTPUT_NANO = 1000, 500, 2000


def test_external_answer_is_metered_by_its_own_usage(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("outside", max_tokens=50))
    answer = response.json()
    assert answer["choices"][0]["message"]["content"] == "Once upon a time."
    assert response.headers["x-sluice-pool"] == "outside"
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (9, 4)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    booked = stack.generation(response.headers["x-request-id"])
    assert booked["usage"] == {"input": 5, "cached_input": 4, "output": 4}
    exact = 5 * INPUT_NANO + 4 * CACHED_NANO + 4 * OUTPUT_NANO
    assert nano(booked["cost_usd"]) == nano(usage["cost"]) == exact
    assert (booked["capacity_class"], booked["usage_source"]) == ("external", "exact")


def test_report_beyond_all_that_was_asked_for_is_our_cost(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    outside.begin(Script(reports={"prompt_tokens": 100_000, "completion_tokens": 2_000}))
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("outside", max_tokens=50))
    usage = response.json()["usage"]
    booked = stack.generation(response.headers["x-request-id"])
    assert usage["completion_tokens"] == booked["usage"]["output"] == 50
    told = stack.admin("GET", f"/requests/{response.headers['x-request-id']}")
    above = told["cogs"]["tokens_above_hold"]
    assert above == {"prompt": 100_000 - usage["prompt_tokens"], "completion": 1_950}
    assert told["attempts"][0]["output"] == 2_000


def test_their_server_gets_their_key_and_their_model_name(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    stack.call("POST", CHAT, secret=tenant.secret, json=body("outside", temperature=0.5))
    [sent] = outside.bodies
    assert outside.keys == [f"Bearer {OUTSIDE_KEY}"]
    assert sent["model"] == OUTSIDE_POOL["upstream_model"]
    assert (sent["stream"], sent["stream_options"]) == (True, {"include_usage": True})
    assert sent["temperature"] == 0.5
    assert sent["messages"] == said()
    assert "sluice" not in sent


def test_external_stream_reads_like_any_other(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    wanted = body("outside", stream_options={"include_usage": True})
    found = streamed(stack, tenant, wanted)
    *chunks, last = chunks_of(found)
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
    assert text == "Once upon a time."
    assert {chunk["model"] for chunk in chunks} == {"outside"}
    assert last["usage"]["completion_tokens"] == 4
    assert found[-1] == "[DONE]"


def test_stream_that_is_cut_ends_with_an_error_and_no_done(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    """Law 9; and what was received is what is charged."""
    outside.begin(Script(cut_after=3))
    found = streamed(stack, tenant, body("outside"))
    assert "[DONE]" not in found
    *chunks, last = chunks_of(found)
    assert last["error"].keys() == {"message", "type", "param", "code"}
    assert last["error"]["code"] == "upstream_disconnected"
    booked = stack.generation(rid_of(chunks[0]["id"]))
    assert (booked["status"], booked["usage_source"]) == ("failed", "exact")
    assert booked["usage"]["output"] == 3
    assert nano(booked["cost_usd"]) > 0


def test_client_raises_when_its_stream_is_cut(
    stack: Stack, client: openai.OpenAI, outside: Outside
) -> None:
    outside.begin(Script(cut_after=3))
    received = []
    with (
        pytest.raises(openai.APIError),
        client.chat.completions.create(model="outside", messages=said(), stream=True) as stream,
    ):
        for chunk in stream:
            received += [choice.delta.content for choice in chunk.choices]
    assert "".join(filter(None, received)) == "Once upon a "


def test_whole_answer_that_is_cut_is_an_error(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    outside.begin(Script(cut_after=3))
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("outside"))
    assert response.status_code in (502, 503)
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    booked = stack.generation(response.headers["x-request-id"])
    assert booked["status"] == "failed"
    assert {attempt["outcome"] for attempt in booked["attempts"]} == {"cut"}


@pytest.mark.parametrize("status", [401, 404, 429, 500, 503])
def test_their_refusal_is_not_the_callers_fault(
    stack: Stack, tenant: Tenant, outside: Outside, status: int
) -> None:
    """Each by a pool of its own, whose breaker may open."""
    outside.begin(Script(status=status))
    refusing = f"refusing-{status}"
    pool = OUTSIDE_POOL | {"model": refusing, "base_url": outside.base_url}
    stack.admin("PUT", f"/models/{refusing}", OUTSIDE_MODEL)
    stack.admin("PUT", f"/pools/{refusing}", pool)
    stack.add_prices(refusing, {"input": "1", "cached_input": "1", "output": "1"})
    response = stack.call(
        "POST",
        CHAT,
        secret=tenant.secret,
        json=body(refusing),
        headers={"x-sluice-deadline-ms": "5000"},
    )
    assert response.status_code in (502, 503)
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert int(response.headers["retry-after"]) >= 1
    booked = stack.generation(response.headers["x-request-id"])
    assert (booked["status"], booked["cost_usd"]) == ("refused", "0.00")
    assert booked["transfers"] == []
    stack.admin("DELETE", f"/pools/{refusing}")
    stack.admin("DELETE", f"/models/{refusing}")


def test_server_that_is_not_there_costs_nothing(stack: Stack, tenant: Tenant) -> None:
    gone = {"model": "nowhere", "base_url": "http://127.0.0.1:9/v1"}
    stack.admin("PUT", "/models/nowhere", OUTSIDE_MODEL)
    stack.admin("PUT", "/pools/nowhere", OUTSIDE_POOL | gone)
    stack.add_prices("nowhere", {"input": "1", "cached_input": "1", "output": "1"})
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("nowhere"))
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "server_is_overloaded"
    assert stack.generation(response.headers["x-request-id"])["cost_usd"] == "0.00"
    stack.admin("DELETE", "/pools/nowhere")
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("nowhere"))
    assert response.status_code == 503, "a model without a pool"
    stack.admin("DELETE", "/models/nowhere")


def test_reasoning_reaches_the_client_whole_and_streamed_and_is_paid_for(
    stack: Stack, tenant: Tenant, client: openai.OpenAI, outside: Outside
) -> None:
    outside.begin(Script(thoughts=("A ", "fox?")))
    whole = client.chat.completions.create(model="outside", messages=said(), max_tokens=50)
    message = whole.choices[0].message
    assert (message.content, message.to_dict()["reasoning_content"]) == (STORY, "A fox?")
    assert whole.usage and whole.usage.completion_tokens_details
    assert whole.usage.completion_tokens_details.reasoning_tokens == 2
    found = chunks_of(streamed(stack, tenant, body("outside")))
    deltas = [chunk["choices"][0]["delta"] for chunk in found]
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "A fox?"
    again = client.chat.completions.create(
        model="outside", messages=[*said(), message, *said()], max_tokens=50
    )
    assert again.choices[0].message.content == STORY
    assert outside.bodies[-1]["messages"][1]["reasoning_content"] == "A fox?"
    response = client.responses.create(model="outside", input="Tell.", max_output_tokens=50)
    thought, text = response.output
    assert (thought.type, text.type) == ("reasoning", "message")
    assert response.output_text == STORY
    booked = stack.generation(rid_of(whole.id))
    assert booked["usage"]["output"] + booked["usage"].get("reasoning", 0) == 6


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_answer_that_their_server_aborts_never_ends_cleanly(
    stack: Stack, tenant: Tenant, outside: Outside, path: str
) -> None:
    outside.begin(Script(finish_reason="abort"))
    wanted = body("outside") if path == CHAT else {"model": "outside", "prompt": "Once"}
    found = streamed(stack, tenant, wanted, path=path)
    assert "[DONE]" not in found
    assert chunks_of(found)[-1]["error"]["code"] == "upstream_disconnected"
    response = stack.call("POST", path, secret=tenant.secret, json=wanted)
    assert response.status_code in (502, 503)


def test_end_in_their_words_is_told_in_openais(
    stack: Stack, tenant: Tenant, outside: Outside
) -> None:
    outside.begin(Script(finish_reason="eos_token"))
    found = chunks_of(streamed(stack, tenant, body("outside")))
    assert found[-1]["choices"][0]["finish_reason"] == "stop"
    response = stack.call("POST", CHAT, secret=tenant.secret, json=body("outside"))
    assert response.json()["choices"][0]["finish_reason"] == "stop"
