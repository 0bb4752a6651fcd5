"""OpenAI's client makes images at a gateway before a server built from OpenAI's document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import API_KEY, PAINTER, RETOUCHER, Edge, edge
from tests.gateway.images.pictures import BASE64, MADE, USED, makes, png
from tests.gateway.images.test_edits import POOLS
from tests.gateway.served import served
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with fake.FakeUpstream(makes(MADE, MADE, size="1024x1024", usage=USED)) as server:
        pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
        async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
            yield running


@pytest.mark.client("openai", "It makes images.", refused="`stream`: images come whole.")
async def test_openais_client_makes_images(one: Edge) -> None:
    async with (
        served(one.app) as url,
        openai.AsyncOpenAI(api_key=API_KEY, base_url=f"{url}/v1", max_retries=0) as client,
    ):
        answer = await client.images.generate(
            model=PAINTER, prompt="a fox", n=2, size="1024x1024", quality="high"
        )
        assert [image.b64_json for image in answer.data or ()] == [BASE64] * 2
        assert answer.created and answer.size == "1024x1024"
        assert answer.usage and answer.usage.input_tokens == USED["input_tokens"]
        with pytest.raises(openai.BadRequestError) as none:
            await client.images.generate(model=PAINTER, prompt="a fox", n=0)
        assert none.value.param == "n"
        with pytest.raises(openai.BadRequestError) as streamed:
            await client.images.generate(model=PAINTER, prompt="a fox", stream=True)
        assert streamed.value.param == "stream"
    (call,) = (await one.settled()).values()
    assert call.usage.units == 2


@pytest.mark.client(
    "openai", "It edits images, with a mask.", refused="`stream`: images come whole."
)
async def test_openais_client_edits_images(one: Edge) -> None:
    async with (
        served(one.app) as url,
        openai.AsyncOpenAI(api_key=API_KEY, base_url=f"{url}/v1", max_retries=0) as client,
    ):
        answer = await client.images.edit(
            model=RETOUCHER,
            image=[("a.png", png()), ("b.png", png(5))],
            mask=("mask.png", png()),
            prompt="in winter",
            n=2,
            size="1024x1024",
        )
        assert [image.b64_json for image in answer.data or ()] == [BASE64] * 2
        assert answer.usage and answer.usage.input_tokens == USED["input_tokens"]
        with pytest.raises(openai.BadRequestError) as second:
            await client.images.edit(
                model=RETOUCHER, image=[("a.png", png()), ("b.png", b"text")], prompt="in winter"
            )
        assert second.value.param == "image[1]"
        too_large = png(comment=bytes(26 << 20))
        with pytest.raises(openai.BadRequestError) as large:
            await client.images.edit(model=RETOUCHER, image=too_large, prompt="in winter")
        assert (large.value.param, large.value.code) == ("image", "file_too_large")
        with pytest.raises(openai.BadRequestError) as streamed:
            await client.images.edit(model=RETOUCHER, image=png(), prompt="a", stream=True)
        assert streamed.value.param == "stream"
    (call,) = (await one.settled()).values()
    assert call.usage.units == 2
