"""One adapter with short bounds, and a server that torments it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.call.frame import Frame
from gateway.upstream import fake
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.openai import OpenAIAnswer, OpenAIUpstream


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    good = fake.stream(
        fake.own_frame("Once", 1), fake.own_frame(" upon", 2, finish="stop"), fake.DONE
    )
    async with fake.FakeUpstream(lambda _: good) as running:
        yield running


@pytest.fixture
async def upstream() -> AsyncIterator[OpenAIUpstream]:
    async with one_adapter() as adapter:
        yield adapter


@asynccontextmanager
async def one_adapter() -> AsyncIterator[OpenAIUpstream]:
    """Its bound of silence is what tests of silence wait for, and no other should meet."""
    client = Http1Client(connect_timeout_s=5.0, idle_timeout_s=1.5)
    try:
        yield OpenAIUpstream(client, time.time)
    finally:
        await client.aclose()


async def frames_of(answer: OpenAIAnswer) -> list[Frame]:
    """All of an answer, however it comes."""
    if answer.is_document:
        return [await answer.document()]
    found: list[Frame] = []
    while frames := await answer.more():
        found += frames
    return found
