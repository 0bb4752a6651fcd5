"""Calls that journeys make, and what is read from their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import httpx2 as httpx

from tests.openai_api.valid import CHUNKS, assert_events
from tests.plain_http import NOBODY
from tests.stack import Stack, Tenant

SMALL, LARGE, NAP, MINILM = "sluice-small", "sluice-large", "sluice-nap", "minilm"
CHAT, COMPLETIONS, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
QUESTION = "Tell me a story about a fox."
LONG_TEXT = "Then the fox went to the river and asked the bear for a boat. " * 12


def said(text: str = QUESTION) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def body(model: str = SMALL, text: str = QUESTION, **rest: Any) -> dict[str, Any]:
    return {"model": model, "messages": said(text), **rest}


def rid_of(answer_id: str) -> str:
    """The request id of an answer's `id`."""
    return f"req_{answer_id.partition('-')[2]}"


def nano(usd: str) -> int:
    """A decimal string in USD as nano-USD; exact or an error."""
    scaled = Decimal(usd) * 10**9
    assert scaled == int(scaled), usd
    return int(scaled)


def events(lines: Iterator[str]) -> Iterator[str]:
    """The payload of every `data:` line, and every comment as it is."""
    for line in lines:
        if line.startswith("data: "):
            yield line.removeprefix("data: ")
        elif line:
            yield line


def streamed(stack: Stack, tenant: Tenant, wanted: dict[str, Any], **options: Any) -> list[str]:
    """All events of one stream, raw; each is one that OpenAI's document knows."""
    path = options.get("path", CHAT)
    with opened(stack, tenant, wanted, **options) as response:
        assert response.status_code == 200, response.read()
        found = list(events(response.iter_lines()))
    if path in CHUNKS:
        assert_events(path, found)
    return found


def opened(stack: Stack, tenant: Tenant, wanted: dict[str, Any], **options: Any) -> Any:
    """A plain streaming POST, to CHAT unless told another `path`, as a context manager."""
    return httpx.stream(
        "POST",
        f"{stack.base_url}{options.pop('path', CHAT)}",
        headers={"authorization": f"Bearer {tenant.secret}"} | options.pop("headers", {}),
        json=wanted | {"stream": True},
        timeout=60.0,
        verify=NOBODY,
        **options,
    )


def chunks_of(found: Sequence[str]) -> list[dict[str, Any]]:
    """The JSON events of a stream."""
    return [json.loads(event) for event in found if event.startswith("{")]
