"""The journeys that touch an engine, on vLLM: a stack of its own, started by `--engine vllm`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from itertools import zip_longest
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from billing.money import usd
from models.prompts import PROMPTS
from tests.journeys.calls import CHAT, LARGE, LONG_TEXT, SMALL, body, opened, said
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT, TIER_FACTORS, TIMES, model, pool, price
from workers.engines.base import EngineSettings, GenerationRequest

pytestmark = pytest.mark.long

POOLS = {SMALL: "small-reserved", LARGE: "large-reserved"}
COST = 20_000
NEAR_TIE = 0.01  # two best logits this close may order differently in other arithmetic
ANSWER_TOKENS = 96
STARTS_WITHIN_S = 120.0


def config() -> str:
    """One warm pool for each checkpoint."""
    pools = [pool(POOLS[name], name, "reserved", idle_s=900, cost=COST) for name in POOLS]
    prices = [price(name, tier) for name in POOLS for tier in TIER_FACTORS]
    return "".join([TIMES, *map(model, POOLS), *pools, *prices])


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    running = Stack(config(), "--engine", "vllm").__enter__()
    yield running
    assert running.stop() == [], "stopping leaves no process behind"


def set_idle(stack: Stack, name: str, idle_s: float) -> None:
    """How long the model's pool stays warm without traffic."""
    told = {"model": name, "capacity_class": "reserved", "idle_s": idle_s, "max_ongoing": 16}
    stack.admin("PUT", f"/pools/{POOLS[name]}", told | {"cost_usd_per_s": usd(COST)})


def libraries(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def worker_tokens(stack: Stack, name: str, prompt: str) -> list[int]:
    """A greedy answer as token ids, asked of the pool's replica itself: tenants get text."""
    secret = json.loads((stack.data / "secrets.json").read_bytes())["worker_secret"]
    wanted = {
        "messages": said(prompt),
        "temperature": 0,
        "max_tokens": ANSWER_TOKENS,
        "sluice": {"request_id": f"req_{name}_{PROMPTS.index(prompt)}"},
    }
    response = stack.http.post(
        f"{stack.replicas(POOLS[name], 'WARM')[0]['address']}{CHAT}",
        headers={"x-sluice-worker-secret": secret},
        json=wanted,
    )
    assert response.status_code == 200, response.text
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line]
    assert lines.pop() == "[DONE]"
    return [token for line in lines for token in json.loads(line)["sluice"]["token_ids"]]


async def default_answers(folder: Path) -> dict[str, tuple[tuple[int, ...], list[int]]]:
    """Prompt and greedy answer, as ids, of the default engine to each of the twenty."""
    from workers.engines.chat import TemplateChat
    from workers.engines.continuous.engine import ContinuousEngine

    chat, found = TemplateChat(folder), {}
    engine = ContinuousEngine(EngineSettings(folder, context_tokens=512))
    await engine.start()
    for prompt in PROMPTS:
        ids = chat.prompt_token_ids(said(prompt))
        request = GenerationRequest(prompt, ids, 0, tokens_max=ANSWER_TOKENS, temperature=0)
        async with aclosing(engine.generate(request)) as stream:
            found[prompt] = (ids, [token async for frame in stream for token in frame.token_ids])
    await engine.stop()
    return found


def gap_at_first_difference(
    checkpoint: Any, prompt: tuple[int, ...], mine: list[int], other: list[int]
) -> float | None:
    """How far the worse of the two tokens lies below the best one where two answers first differ,
    in logits that transformers computes; None if they do not differ."""
    import torch

    pairs = enumerate(zip_longest(mine, other))
    first = next((place for place, (left, right) in pairs if left != right), None)
    if first is None:
        return None
    if first >= min(len(mine), len(other)):
        return float("inf")  # one goes on where the other has ended
    with torch.inference_mode():
        logits = checkpoint(torch.tensor([[*prompt, *mine[:first]]])).logits[0, -1]
    worst = min(logits[mine[first]], logits[other[first]])
    return float(logits.max() - worst)


def test_chat_is_answered_by_vllm(stack: Stack, client: openai.OpenAI) -> None:
    for name in POOLS:
        answer = client.chat.completions.create(model=name, messages=said(), max_tokens=200)
        assert answer.choices[0].message.content
        assert answer.choices[0].finish_reason in ("stop", "length")
        assert answer.usage and answer.usage.completion_tokens > 0
        assert "/site-packages/vllm/" in libraries(stack.replica_pid(POOLS[name]))


def test_a_stream_says_what_the_whole_answer_says(client: openai.OpenAI) -> None:
    for name in POOLS:
        wanted: Any = {"model": name, "messages": said(), "temperature": 0, "max_tokens": 200}
        whole = client.chat.completions.create(**wanted)
        options: Any = {"stream_options": {"include_usage": True}}
        chunks = list(client.chat.completions.create(**wanted, **options, stream=True))
        texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
        assert "".join(texts) == whole.choices[0].message.content
        assert len(texts) > 3
        assert chunks[-1].usage and whole.usage
        assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_forms_and_tools_are_held_by_vllm(client: openai.OpenAI) -> None:
    town = {"enum": ["Ulm", "Bonn"]}
    arguments = {
        "type": "object",
        "properties": {"town": town},
        "required": ["town"],
        "additionalProperties": False,
    }
    function = {"name": "weather", "parameters": arguments, "strict": True}
    form: Any = {"type": "json_schema", "json_schema": {"name": "a", "schema": arguments}}
    for name in POOLS:
        wanted: Any = {"model": name, "messages": said(), "temperature": 1.5, "seed": 5}
        answer = client.chat.completions.create(**wanted, response_format=form)
        assert answer.choices[0].finish_reason == "stop"
        assert json.loads(answer.choices[0].message.content or "")["town"] in town["enum"]
        tools: Any = {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
        }
        chunks = list(client.chat.completions.create(**wanted, **tools, stream=True))
        pieces = [p for c in chunks if c.choices for p in c.choices[0].delta.tool_calls or ()]
        said_arguments = "".join(p.function.arguments or "" for p in pieces if p.function)
        assert json.loads(said_arguments)["town"] in town["enum"]
        assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_completions_come_with_log_probabilities(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model=SMALL, prompt=["Once", "The river"], n=2, max_tokens=8, temperature=0, logprobs=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        scores = choice.logprobs
        assert scores and scores.tokens and scores.token_logprobs and scores.top_logprobs
        assert "".join(scores.tokens) == choice.text
        for own, top in zip(scores.token_logprobs, scores.top_logprobs, strict=True):
            assert own == pytest.approx(max(top.values()))  # greedy
    first, second, *_ = answer.choices
    assert first.text == second.text


def test_client_that_leaves_stops_its_sequence(stack: Stack, tenant: Tenant) -> None:
    def out() -> int:
        return int(sum(s["tokens_out_total"] for s in stack.replica_stats(POOLS[LARGE])))

    before = out()
    for _ in range(4):
        with opened(stack, tenant, body(LARGE, max_tokens=256, temperature=1.5)) as response:
            next(response.iter_lines())
        stack.wait_until(lambda: stack.gauges().running == 0, 60, stack.gauges)
    assert out() - before < 4 * 256
    calls = stack.wait_until(
        lambda: len(found := stack.requests_of(tenant)) == 4 and found, 60, "four calls booked"
    )
    assert "cancelled" in {call["status"] for call in calls}


def test_known_prefix_is_cached_for_its_organization_alone(stack: Stack) -> None:
    def cached(tenant: Tenant, name: str) -> int:
        wanted = body(name, LONG_TEXT, max_tokens=4)
        answer = stack.call("POST", CHAT, secret=tenant.secret, json=wanted).json()
        return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

    mine, theirs = stack.tenant(), stack.tenant()
    for name in POOLS:
        assert cached(mine, name) == 0
        assert cached(mine, name) >= 32
        assert cached(theirs, name) == 0


@pytest.mark.parametrize("name", POOLS)
def test_pool_goes_to_zero_and_the_next_call_starts_it(
    stack: Stack, client: openai.OpenAI, name: str
) -> None:
    set_idle(stack, name, 1.0)
    stack.wait_until(lambda: not stack.replicas(POOLS[name]), 60, "the pool to go to zero")
    set_idle(stack, name, 900.0)
    answer = client.chat.completions.create(
        model=name, messages=said(), max_tokens=8, timeout=STARTS_WITHIN_S
    )
    assert answer.choices[0].message.content
    assert len(stack.replicas(POOLS[name], "WARM")) == 1


def test_replica_that_is_killed_leaves_nothing_and_is_replaced(
    stack: Stack, client: openai.OpenAI
) -> None:
    killed = stack.replica_pid(POOLS[SMALL])
    assert psutil.Process(killed).children(recursive=True) == []
    before = {replica["id"] for replica in stack.replicas(POOLS[SMALL])}
    os.kill(killed, signal.SIGKILL)
    stack.wait_until(
        lambda: {r["id"] for r in stack.replicas(POOLS[SMALL], "WARM")} - before,
        STARTS_WITHIN_S,
        "another replica",
    )
    answer = client.chat.completions.create(model=SMALL, messages=said(), max_tokens=8)
    assert answer.choices[0].message.content


@pytest.mark.parametrize("name", POOLS)
def test_twenty_greedy_answers_are_those_of_the_default_engine(stack: Stack, name: str) -> None:
    """Or differ first where the two best tokens are as good as equal."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = ROOT / "models" / name
    checkpoint = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    wanted = asyncio.run(default_answers(folder))
    assert len({tuple(answer) for _, answer in wanted.values()}) > 10
    gaps = {
        prompt: gap_at_first_difference(checkpoint, ids, worker_tokens(stack, name, prompt), answer)
        for prompt, (ids, answer) in wanted.items()
    }
    assert len(gaps) == 20
    too_far = {prompt: gap for prompt, gap in gaps.items() if gap is not None and gap >= NEAR_TIE}
    assert not too_far
    print(f"{name}: {sum(gap is None for gap in gaps.values())} of 20 are equal: {gaps}")


def test_an_answer_that_differs_is_noticed() -> None:
    """The check above can fail: on another token, on one more, on one less."""
    import torch
    from transformers import AutoModelForCausalLM

    folder = ROOT / "models" / SMALL
    checkpoint = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids, answer = asyncio.run(default_answers(folder))[PROMPTS[0]]
    other = [*answer[:5], (answer[5] + 1) % 2048, *answer[6:]]
    for changed in (other, answer[:-1], [*answer, 7]):
        gap = gap_at_first_difference(checkpoint, ids, changed, answer)
        assert gap is not None and gap > NEAR_TIE
    assert gap_at_first_difference(checkpoint, ids, answer, answer) is None


def test_ledger_of_all_this_is_whole(stack: Stack) -> None:
    stack.wait_quiet()
    status, report = stack.ledger_verify()
    assert status == 0, [check for check in report["checks"] if check["outcome"] != "holds"]
