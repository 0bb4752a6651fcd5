"""Streams of providers that are cut, each in its own form: none ends cleanly, and what came of it
is counted and charged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.call.frame import Frame
from gateway.upstream.answer import UpstreamError
from gateway.upstream.openai import OpenAIUpstream
from tests.gateway.edge import FAR, Response, body, edge
from tests.providers.conftest import ProvidersProcess
from tests.providers.fakes import fake_provider
from tests.providers.test_adapters import (
    KINDS,
    LEFT_S,
    Kind,
    client,
    every_kind,
    frames_of,
    target,
    text_of,
)
from tests.providers.test_behind_a_gateway import listens_at
from tests.redis_server import RedisServer

__all__ = ["client"]


@every_kind
@pytest.mark.parametrize("cuts", ["properly", "broken", "error"])
async def test_stream_that_is_cut_has_no_end(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, cuts: str
) -> None:
    frames: list[Frame] = []
    async with fake_provider(kind.name, kind.used, cuts=cuts) as fake:
        with pytest.raises(UpstreamError):
            async with await client.open(target(providers, kind, fake)) as answer:
                while more := await answer.more():
                    answer.begun()
                    frames += more
    assert text_of(frames) == "Once "
    assert not [c.finish_reason for f in frames for c in f.choices if c.finish_reason]


@every_kind
async def test_answer_may_say_one_word_again_and_again(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind
) -> None:
    words = ("well, ",) * 150
    async with fake_provider(kind.name, kind.used, words=words) as fake:
        frames = await frames_of(client, target(providers, kind, fake))
    assert text_of(frames) == "".join(words)


BEDROCK = next(kind for kind in KINDS if kind.name == "bedrock")
BEDROCKS = {
    "adapter": "litellm",
    "model": FAR,
    "upstream_model": BEDROCK.model,
    "api_key_env": "SLUICE_PROVIDER_KEY_AWS",
    "continues": "off",
}
TOLD = 2
"""Words of a stream that is left or cut. Bedrock says what it used with the last event alone."""
ENDS: dict[str, tuple[dict[str, Any], CallStatus, int]] = {
    "its caller leaves": ({"holds": True}, CallStatus.CANCELLED, TOLD),
    "it ends too early": ({"cuts": "properly"}, CallStatus.FAILED, TOLD),
    "it breaks": ({"cuts": "broken"}, CallStatus.FAILED, TOLD),
    "it says that it fails": ({"cuts": "error"}, CallStatus.FAILED, TOLD),
    "it does not say what it used": ({"reports": False}, CallStatus.ANSWERED, 3),
}


@pytest.mark.parametrize(("fake_is", "status", "told"), ENDS.values(), ids=ENDS.keys())
async def test_what_came_of_bedrocks_stream_without_usage_is_counted_and_charged(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
    fake_is: dict[str, Any],
    status: CallStatus,
    told: int,
) -> None:
    listens_at(monkeypatch, providers)
    async with (
        fake_provider("bedrock", BEDROCK.used, told=TOLD, **fake_is) as fake,
        edge(redis_server, redis, tmp_path, outer=fake.url, outer_pool=BEDROCKS) as one,
    ):

        async def leave(response: Response) -> None:
            while not (fake.holds and b"upon" in response.body):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        response = await one.post(body(model=FAR), leave=leave)
        (call,) = (await one.settled()).values()
        if fake.holds:
            await asyncio.wait_for(fake.left.wait(), LEFT_S)
    assert call.status is status
    assert call.usage.completion == told
    assert call.amount_nanousd == call.usage.input * 1000 + told * 5000 > told * 5000
    assert (b"[DONE]" in response.body) is (status is CallStatus.ANSWERED)
