"""A replica is killed under streams: each goes on at another pool of the same weights, and its
caller reads one whole answer.

That the text is the one of an answer that was never cut is the law of
tests/workers/engines/test_resuming.py. Here several answers share each step, and what was replayed
was computed in one piece: a draw on the edge of rounding may fall otherwise.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from tests.journeys.calls import SMALL, body, events, opened
from tests.stack import Stack, Tenant

STREAMS = 5
END = "<|end|>"
POOLS = ("small-reserved", "small-spot")
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"town": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["town", "days"],
        },
    },
}
KINDS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0, "min_tokens": 220},
    "drawn": {"temperature": 1, "min_tokens": 220, "logprobs": True, "top_logprobs": 2},
    "a call of a tool": {"temperature": 1, "tools": [TOOL], "tool_choice": "required"},
}


def wanted(kind: str, seed: int) -> dict[str, Any]:
    usage = {"stream": True, "stream_options": {"include_usage": True}}
    return body(SMALL, max_tokens=240, seed=seed, **KINDS[kind], **usage)


def read(
    stack: Stack, tenant: Tenant, call: dict[str, Any], begun: Callable[[], object] = lambda: 0
) -> list[Any]:
    """Every chunk of a stream, without its names; `begun` is called behind the first text."""
    chunks, has_begun = [], False
    with opened(stack, tenant, call) as response:
        assert response.status_code == 200, response.read()
        for event in events(response.iter_lines()):
            if event.startswith(":"):
                continue  # it waits
            chunks.append(event if event == "[DONE]" else json.loads(event))
            if not has_begun and len(chunks) > 2:
                has_begun = True
                begun()
    return chunks


def told(chunks: list[Any]) -> dict[str, Any]:
    """What a stream says, however its tokens share chunks."""
    assert chunks[-1] == "[DONE]", chunks[-1]
    assert len({chunk["id"] for chunk in chunks[:-1]}) == 1
    choices = [choice for chunk in chunks[:-1] for choice in chunk["choices"]]
    deltas = [choice["delta"] for choice in choices]
    assert sum("role" in delta for delta in deltas) == 1
    calls = [piece for delta in deltas for piece in delta.get("tool_calls") or ()]
    usage = next(chunk["usage"] for chunk in chunks[-2::-1] if chunk.get("usage"))
    scored = [choice["logprobs"]["content"] for choice in choices if choice.get("logprobs")]
    return {
        "text": "".join(delta.get("content") or "" for delta in deltas),
        "arguments": "".join(piece["function"]["arguments"] for piece in calls),
        "calls": sum("id" in piece for piece in calls),
        "tokens": [entry["token"] for entries in scored for entry in entries],
        "finish": [choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        "usage": (usage["prompt_tokens"], usage["completion_tokens"]),
    }


def is_whole(answer: dict[str, Any], undisturbed: dict[str, Any], kind: str) -> None:
    """No token was lost, repeated or counted twice, and the prompt was counted once."""
    prompt, completion = answer["usage"]
    assert prompt == undisturbed["usage"][0]
    assert len(answer["finish"]) == 1
    if kind == "a call of a tool":
        pieces = answer["arguments"].replace("}{", "}\n{").splitlines()
        assert len(pieces) == answer["calls"] >= 1
        assert all(set(json.loads(piece)) == {"town", "days"} for piece in pieces)
        return
    assert 220 <= completion <= 240
    if kind == "drawn":
        assert len(answer["tokens"]) == completion
        assert "".join(answer["tokens"]).removesuffix(END) == answer["text"]


@pytest.mark.parametrize("kind", KINDS)
def test_se_streams_of_a_killed_replica_go_on_elsewhere(
    stack: Stack, tenant: Tenant, kind: str
) -> None:
    stack.wake(*POOLS)
    calls = [wanted(kind, seed) for seed in range(STREAMS)]
    expected = [told(read(stack, tenant, call)) for call in calls]
    pids = {pool: stack.replica_pid(pool) for pool in POOLS}
    everyone = Barrier(STREAMS + 1, timeout=60)
    with ThreadPoolExecutor(STREAMS) as callers:
        asking = [callers.submit(read, stack, tenant, call, everyone.wait) for call in calls]
        everyone.wait()
        busiest = max(POOLS, key=lambda pool: sum(s["running"] for s in stack.replica_stats(pool)))
        os.kill(pids[busiest], signal.SIGKILL)
        answers = [told(each.result()) for each in asking]
    for answer, undisturbed in zip(answers, expected, strict=True):
        is_whole(answer, undisturbed, kind)
    stack.wait_booked()
    records = stack.requests_of(tenant)
    assert len(records) == 2 * STREAMS
    details = [stack.generation(record["id"]) for record in records]
    moved = [a for each in details for a in each["attempts"] if a["outcome"] == "moved"]
    assert moved or kind not in ("greedy", "drawn"), "these are long enough to be cut"
    assert {attempt["pool"] for attempt in moved} <= {busiest}
    stack.wait_until(lambda: stack.replicas(busiest, "WARM"), 120, busiest)
