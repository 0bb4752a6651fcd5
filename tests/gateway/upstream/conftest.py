"""One adapter with short bounds, and a server that torments it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from gateway.upstream import fake
from gateway.upstream.openai import OpenAIUpstream


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    good = fake.stream(
        fake.own_frame("Once", 1), fake.own_frame(" upon", 2, finish="stop"), fake.DONE
    )
    async with fake.FakeUpstream(lambda _: good) as running:
        yield running


@pytest.fixture
async def upstream() -> AsyncIterator[OpenAIUpstream]:
    async with aiohttp.ClientSession() as session:
        yield OpenAIUpstream(session, connect_timeout_s=1.0, idle_timeout_s=0.3)
