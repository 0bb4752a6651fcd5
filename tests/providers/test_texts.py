"""Texts to go on with through the process of adapters, and providers that count nothing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from billing.types import Usage
from gateway.upstream.answer import Rejected, UpstreamError
from gateway.upstream.openai import OpenAIUpstream, Target
from tests.providers.conftest import ProvidersProcess
from tests.providers.fakes import FakeProvider, fake_provider
from tests.providers.test_adapters import (
    KINDS,
    LEFT_S,
    Kind,
    client,
    every_kind,
    frames_of,
    target,
    text_of,
    usage_of,
)

__all__ = ["client"]

ANTHROPIC = KINDS[0]
TEXTS = (
    Kind("text", "text-completion-openai/davinci-002", "PLAIN", Usage(input=9, output=4)),
    Kind("text", "hosted_vllm/Qwen/Qwen3-8B", "PLAIN", Usage(input=9, output=4)),
)
every_text = pytest.mark.parametrize("kind", TEXTS, ids=["openai", "vllm"])
both_ways = pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])


def text_target(
    providers: ProvidersProcess, kind: Kind, fake: FakeProvider, *, whole: bool = True, **more: Any
) -> Target:
    at = target(providers, kind, fake, whole=whole)
    body = json.loads(at.body) | {"prompt": "Once"} | more
    del body["messages"]
    url = at.url.replace("chat/completions", "completions")
    return msgspec.structs.replace(at, url=url, body=json.dumps(body).encode())


@every_text
@both_ways
async def test_text_goes_on_and_its_usage_is_what_the_provider_reports(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with fake_provider(kind.name, kind.used) as fake:
        at = text_target(providers, kind, fake, whole=whole, seed=3)
        frames = await frames_of(client, at)
    assert "".join(c.text or "" for f in frames for c in f.choices) == "Once upon a time."
    assert usage_of(frames) == kind.used
    assert [c.finish_reason for f in frames for c in f.choices if c.finish_reason] == ["stop"]
    sent = fake.bodies[0]
    assert (sent["prompt"], sent["seed"], sent["max_tokens"]) == ("Once", 3, 64)


@every_text
@both_ways
async def test_caller_of_a_text_that_leaves_cancels_it_at_the_provider(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with fake_provider(kind.name, kind.used, holds=True) as fake:
        call = asyncio.create_task(
            frames_of(client, text_target(providers, kind, fake, whole=whole))
        )
        await asyncio.wait_for(fake.begun.wait(), LEFT_S)
        call.cancel()
        await asyncio.wait_for(fake.left.wait(), LEFT_S)
        with pytest.raises(asyncio.CancelledError):
            await call


@every_text
@both_ways
async def test_redirect_of_a_text_is_not_followed(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with (
        fake_provider(kind.name, kind.used) as elsewhere,
        fake_provider(kind.name, kind.used, status=307, location=elsewhere.url) as fake,
    ):
        with pytest.raises(UpstreamError):
            await frames_of(client, text_target(providers, kind, fake, whole=whole))
    assert elsewhere.bodies == [] and len(fake.bodies) == 1


REFUSED: tuple[tuple[Kind, str, dict[str, Any]], ...] = (
    (ANTHROPIC, "prompt", {}),
    (TEXTS[0], "prompt", {"prompt": ["one", "two"]}),
    (TEXTS[0], "prompt", {"prompt": [1, 2]}),
    (TEXTS[0], "n", {"n": 2}),
    (TEXTS[0], "logprobs", {"logprobs": 1}),
    (TEXTS[0], "echo", {"echo": True}),
)


@pytest.mark.parametrize(("kind", "param", "more"), REFUSED, ids=lambda v: str(v)[:20])
async def test_what_no_adapter_can_of_texts_is_refused_by_its_name(
    providers: ProvidersProcess,
    client: OpenAIUpstream,
    kind: Kind,
    param: str,
    more: dict[str, Any],
) -> None:
    async with fake_provider(kind.name, kind.used) as fake:
        with pytest.raises(Rejected) as refused:
            await frames_of(client, text_target(providers, kind, fake, **more))
    assert (refused.value.rejection.status, refused.value.rejection.param) == (400, param)
    assert fake.bodies == []


@every_kind
async def test_stream_that_reports_no_usage_is_not_told_a_guess(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind
) -> None:
    async with fake_provider(kind.name, kind.used, reports=False) as fake:
        frames = await frames_of(client, target(providers, kind, fake))
    assert text_of(frames) == "Once upon a time."
    assert usage_of(frames) is None


async def test_whole_answer_that_reports_no_usage_is_not_told_a_guess(
    providers: ProvidersProcess, client: OpenAIUpstream
) -> None:
    kind = next(kind for kind in KINDS if kind.name == "azure")
    async with fake_provider(kind.name, kind.used, reports=False) as fake:
        at = target(providers, kind, fake, whole=True)
        async with await client.open(at) as answer:
            frame = await answer.document()
    assert frame.usage is not None and frame.usage.input == 0  # as the gateway says, none here
