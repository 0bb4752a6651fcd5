"""Five providers through the process of adapters, by the gateway's own client."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from base64 import b64decode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from billing.types import Usage
from gateway.call.frame import Frame
from gateway.upstream.answer import Misconfigured, Rejected, Saturated, UpstreamError
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.openai import OpenAIUpstream, Patience, Target, Whole
from tests.providers.conftest import KEYS, SECRET, ProvidersProcess
from tests.providers.fakes import FakeProvider, fake_provider

PATIENCE = Patience(60.0, 60.0)
LEFT_S = 15.0


@dataclass(frozen=True)
class Kind:
    """A provider: what its model and its key are called, and the usage that it can report."""

    name: str
    model: str
    key: str
    used: Usage
    path: str = ""
    refuses: dict[str, Any] = field(default_factory=dict)


ALL = Usage(input=20, cached_input=7, output=9, cache_write=5)
KINDS = (
    Kind(
        "anthropic",
        "anthropic/claude-haiku-4-5",
        "PLAIN",
        Usage(input=20, cached_input=7, output=6, cache_write=5, reasoning=3),
        refuses={"logit_bias": {"7": 1}},
    ),
    Kind(
        "gemini",
        "gemini/gemini-2.5-flash",
        "PLAIN",
        Usage(input=20, cached_input=7, output=6, reasoning=3),
        refuses={"logit_bias": {"7": 1}},
    ),
    Kind("bedrock", "bedrock/converse/us.amazon.nova-lite-v1:0", "AWS", ALL, refuses={"seed": 3}),
    Kind(
        "azure",
        "azure/gpt-4o",
        "AZURE",
        Usage(input=20, cached_input=7, output=6, reasoning=3),
        refuses={"top_k": 4},
    ),
    Kind(
        "cohere",
        "cohere_chat/command-r-08-2024",
        "PLAIN",
        Usage(input=20, output=9),
        refuses={"logit_bias": {"7": 1}},
    ),
)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture
async def client() -> AsyncIterator[OpenAIUpstream]:
    http = Http1Client(connect_timeout_s=30.0, idle_timeout_s=60.0)
    try:
        yield OpenAIUpstream(http, time.time)
    finally:
        await http.aclose()


def target(
    providers: ProvidersProcess, kind: Kind, fake: FakeProvider, *, whole: bool = False, **more: Any
) -> Target:
    key = f"SLUICE_PROVIDER_KEY_{kind.key}"
    messages = [{"role": "user", "content": "Tell me a story."}]
    body = {"model": kind.model, "messages": messages, "max_tokens": 64, "n": 1} | more
    if not whole:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Target(
        url=f"{providers.url}/v1/chat/completions",
        headers={
            "content-type": "application/json",
            "authorization": f"Bearer {SECRET}",
            "x-sluice-provider-url": fake.url,
            "x-sluice-provider-key": key,
        },
        body=json.dumps(body).encode(),
        secrets=(SECRET,),
        outside=True,
        patience=PATIENCE,
        whole=Whole(0) if whole else None,
    )


async def frames_of(client: OpenAIUpstream, at: Target) -> list[Frame]:
    async with await client.open(at) as answer:
        if answer.is_document:
            return [await answer.document()]
        frames: list[Frame] = []
        while more := await answer.more():
            answer.begun()
            frames += more
        return frames


def text_of(frames: list[Frame]) -> str:
    return "".join(c.full_delta.get("content") or "" for f in frames for c in f.choices)


def usage_of(frames: list[Frame]) -> Usage | None:
    return next((f.usage for f in reversed(frames) if f.usage is not None), None)


@every_kind
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
async def test_answer_and_usage_are_what_the_provider_reports(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with fake_provider(kind.name, kind.used) as fake:
        frames = await frames_of(client, target(providers, kind, fake, whole=whole))
    assert text_of(frames) == "Once upon a time."
    assert usage_of(frames) == kind.used
    if not whole:  # a stream stays one
        assert sum(bool(text_of([frame])) for frame in frames) == len(fake.words)
    assert [c.finish_reason for f in frames for c in f.choices if c.finish_reason] == ["stop"]


@every_kind
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
async def test_caller_that_leaves_cancels_the_call_of_the_provider(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with fake_provider(kind.name, kind.used, holds=True) as fake:
        at = target(providers, kind, fake, whole=whole)
        call = asyncio.create_task(frames_of(client, at))
        await asyncio.wait_for(fake.begun.wait(), LEFT_S)
        call.cancel()
        await asyncio.wait_for(fake.left.wait(), LEFT_S)
        with pytest.raises(asyncio.CancelledError):
            await call


@every_kind
async def test_field_that_a_provider_lacks_is_refused_by_its_name(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind
) -> None:
    async with fake_provider(kind.name, kind.used) as fake:
        with pytest.raises(Rejected) as refused:
            await frames_of(client, target(providers, kind, fake, **kind.refuses))
    assert (refused.value.rejection.status, refused.value.rejection.param) == (400, *kind.refuses)
    assert fake.bodies == []


@every_kind
async def test_call_reaches_the_url_of_the_pool_with_the_key_that_it_names(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind
) -> None:
    async with fake_provider(kind.name, kind.used) as fake:
        await frames_of(client, target(providers, kind, fake, whole=True, temperature=0.5))
    said = json.dumps(fake.headers) + fake.paths[0]
    text = KEYS[f"SLUICE_PROVIDER_KEY_{kind.key}"]
    credentials = json.loads(text) if text.startswith("{") else {"api_key": text}
    visible = credentials.get("api_key") or credentials["aws_access_key_id"]
    assert visible in said
    assert SECRET not in said
    assert len(fake.bodies) == 1
    assert "0.5" in json.dumps(fake.bodies[0])
    assert "log" not in json.dumps(fake.bodies[0])  # what steers the library stays here


@pytest.mark.parametrize(
    ("name", "model"), [("azure", "azure/embed"), ("cohere", "cohere/embed-v4.0")]
)
async def test_vectors_and_their_usage_are_what_the_provider_reports(
    providers: ProvidersProcess, client: OpenAIUpstream, name: str, model: str
) -> None:
    kind = next(kind for kind in KINDS if kind.name == name)
    body = {"model": model, "input": ["one", "two"], "encoding_format": "base64", "user": "u"}
    async with fake_provider(name, Usage(input=8)) as fake:
        at = target(providers, kind, fake)
        at = msgspec.structs.replace(
            at,
            url=at.url.replace("chat/completions", "embeddings"),
            body=json.dumps(body).encode(),
            choices=2,
            embeds=True,
        )
        (frame,) = await frames_of(client, at)
    assert frame.usage == Usage(input=8)
    vectors = [struct.unpack("<2f", b64decode(c.embedding or "")) for c in frame.choices]
    assert vectors == [(0.5, 0.0), (0.5, -1.0)]


TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@every_kind
async def test_call_of_a_tool_comes_through_as_openai_streams_one(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind
) -> None:
    async with fake_provider(kind.name, kind.used, calls_tool=True) as fake:
        frames = await frames_of(client, target(providers, kind, fake, tools=[TOOL]))
    pieces = [piece for f in frames for c in f.choices for piece in c.tool_calls]
    assert {piece.index for piece in pieces} == {0}
    said = [msgspec.to_builtins(piece) for piece in pieces]
    functions = [piece.get("function") or {} for piece in said]
    assert [f["name"] for f in functions if f.get("name")] == ["weather"]
    arguments = "".join(f.get("arguments") or "" for f in functions)
    assert json.loads(arguments) == {"city": "Oslo"}
    assert next(piece["id"] for piece in said if piece.get("id"))
    assert [c.finish_reason for f in frames for c in f.choices if c.finish_reason] == ["tool_calls"]
    assert usage_of(frames) == kind.used
    assert "weather" in json.dumps(fake.bodies[0])


STATUSES: tuple[tuple[int, type[UpstreamError]], ...] = (
    (401, Misconfigured),
    (429, Saturated),
    (307, UpstreamError),
)


@every_kind
@pytest.mark.parametrize(("status", "fails"), STATUSES, ids=lambda v: str(v))
async def test_refusal_of_a_provider_is_one_of_the_pools_and_holds_no_key(
    providers: ProvidersProcess,
    client: OpenAIUpstream,
    kind: Kind,
    status: int,
    fails: type[UpstreamError],
) -> None:
    async with (
        fake_provider(kind.name, kind.used) as elsewhere,
        fake_provider(kind.name, kind.used, status=status, location=elsewhere.url) as fake,
    ):
        with pytest.raises(fails) as failed:
            await frames_of(client, target(providers, kind, fake))
    fault = failed.value.fault
    assert fault is not None
    assert not any(secret in f"{fault} {failed.value}" for secret in secrets())
    assert "Traceback" not in f"{fault} {failed.value}"
    assert elsewhere.bodies == []  # a redirect is not followed
    assert len(fake.bodies) == 1  # and nothing is tried twice here


@every_kind
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
async def test_call_whose_connection_breaks_is_not_sent_again_unseen(
    providers: ProvidersProcess, client: OpenAIUpstream, kind: Kind, whole: bool
) -> None:
    async with fake_provider(kind.name, kind.used, breaks=True) as fake:
        with pytest.raises(UpstreamError):
            await frames_of(client, target(providers, kind, fake, whole=whole))
    assert len(fake.bodies) == 1


def secrets() -> list[str]:
    texts = [json.loads(t) if t.startswith("{") else {"api_key": t} for t in KEYS.values()]
    return [v for t in texts for n, v in t.items() if n not in ("api_version", "aws_region_name")]


async def test_nobody_without_the_secret_is_served_and_no_other_variable_is_read(
    providers: ProvidersProcess, client: OpenAIUpstream
) -> None:
    kind = KINDS[0]
    async with fake_provider(kind.name, kind.used) as fake:
        plain = target(providers, kind, fake, whole=True)
        for name, value in (("authorization", "Bearer other"), ("x-sluice-provider-key", "PATH")):
            headers = {**plain.headers, name: value}
            other = Target(
                plain.url, headers, plain.body, outside=True, patience=PATIENCE, whole=plain.whole
            )
            with pytest.raises(Misconfigured):
                await frames_of(client, other)
    assert fake.bodies == []


def test_log_of_the_process_holds_no_key_and_no_prompt(providers: ProvidersProcess) -> None:
    log = "".join(providers.lines)
    assert "Tell me a story." not in log
    assert not any(secret in log for secret in (*secrets(), SECRET))
