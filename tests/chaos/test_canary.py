"""Keys, prompts and answers are nowhere but on the wire: not in a log, a spool, a database or
Redis, whatever goes well, badly or down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import body, edge
from tests.gateway.outages import stopped
from tests.gateway_processes import ADMIN_KEY, API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

PROMPT = "canaryprompt7d1f"
ANSWER = "canaryanswer9c2e"
WRONG_KEY = "sk-sluice-wrongcanary5a1b"
USER = "canaryuser3f8a"
TOLD_WITHIN_S = 60.0
SECRETS = [PROMPT, ANSWER, WRONG_KEY, USER, API_KEY, ADMIN_KEY, "worker-secret-canary"]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with TemporaryDirectory(prefix="sluice-") as folder, RedisServer(Path(folder)) as started:
        yield started


@pytest.fixture
async def upstream() -> AsyncIterator[fake.FakeUpstream]:
    def tell(_: fake.Request) -> fake.Script:
        words = [fake.Send(fake.plain_frame(f"{ANSWER} ")), fake.Pause(0.01)] * 6
        last = fake.plain_frame(finish="stop") + fake.plain_usage(4_000, 600) + fake.DONE
        return fake.Script([*words, fake.Send(last)])

    async with fake.FakeUpstream(tell) as running:
        yield running


def chat(**changes: Any) -> dict[str, Any]:
    message = {"role": "user", "content": PROMPT}
    return {"model": "outside", "messages": [message], "user": USER, "max_tokens": 9} | changes


GOOD = [
    ("/v1/chat/completions", chat()),
    ("/v1/chat/completions", chat(stream=True)),
    ("/v1/completions", {"model": "outside", "prompt": PROMPT, "user": USER, "max_tokens": 9}),
    ("/v1/responses", {"model": "outside", "input": PROMPT}),
    ("/v1/messages", chat(user=None) | {"metadata": {"user_id": USER}}),
    ("/v1/quote", {"url": "/v1/chat/completions", "body": chat()}),
]
BAD = [
    ("/v1/chat/completions", chat(temperature=PROMPT)),
    ("/v1/chat/completions", chat(model=PROMPT)),
    ("/v1/chat/completions", chat(messages=[{"role": PROMPT, "content": PROMPT}])),
    ("/v1/chat/completions", chat(max_tokens=10**9)),
    ("/v1/embeddings", {"model": "outside", "input": PROMPT}),
    (f"/v1/{PROMPT}", chat()),
]


async def post(
    running: Gateways, path: str, sent: Any, key: str = API_KEY, timeout_s: float = 20.0
) -> int:
    named = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    raw = {"data": sent} if isinstance(sent, bytes) else {"json": sent}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        url = running.url(0, path)
        async with running.session.post(url, headers=named, timeout=timeout, **raw) as response:
            await response.read()
            return response.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


async def test_no_key_prompt_or_answer_is_left_anywhere(
    server: RedisServer, upstream: fake.FakeUpstream, tmp_path: Path
) -> None:
    """With every log as talkative as it gets."""
    async with gateways(server, tmp_path, upstream.address, count=1) as running:
        scope = "/limits/org:org_default/user:*"
        await running.admin("PUT", scope, {"requests_per_minute": 6_000})
        for path, sent in GOOD:
            assert await post(running, path, sent) in (200, 400), path
        for path, sent in BAD:
            assert await post(running, path, sent) in (400, 404)
        assert await post(running, "/v1/chat/completions", chat(), key=WRONG_KEY) == 401
        assert await post(running, "/v1/chat/completions", PROMPT.encode()) == 400
        for script in (
            fake.refusal(500, {"message": f"{PROMPT} {ANSWER}", "code": PROMPT}),
            fake.refusal(400, {"message": f"{PROMPT} {ANSWER}"}),
            fake.refusal(500, f"<html>{PROMPT} {ANSWER}".encode()),
            fake.stream(fake.plain_frame(ANSWER), then=[fake.Reset()]),
            fake.stream(f"data: {{{ANSWER}\n\n".encode()),
            fake.Script([fake.Raw(f"nonsense {ANSWER}\r\n\r\n".encode())], None),
        ):
            upstream.scripts.append(script)
            await post(running, "/v1/chat/completions", chat(stream=True))
            upstream.scripts.clear()
        with stopped(server):
            for _ in range(8):
                await post(running, "/v1/chat/completions", chat())
        await running.admin("PUT", "/limits/org:org_default", {"requests_per_minute": 0})
        async with asyncio.timeout(TOLD_WITHIN_S):
            while await post(running, "/v1/chat/completions", chat()) != 429:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await running.admin("PUT", "/limits/org:org_default", {"requests_per_minute": None})
        upstream.scripts.append(fake.stream(fake.plain_frame(ANSWER), then=[fake.Stall()]))
        before = len(upstream.requests)
        dying = asyncio.create_task(post(running, "/v1/chat/completions", chat(stream=True)))
        async with asyncio.timeout(TOLD_WITHIN_S):
            while len(upstream.requests) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.7)  # what came so far is relayed, kept and logged
        running.kill9("0")
        await dying
        running.start("0")
        await running.takes_calls()
        await asyncio.sleep(1.0)
        assert_silent(tmp_path)
        assert_silent(server.folder)


def assert_silent(folder: Path) -> None:
    """Every file, whatever it is for."""
    talked_of_a_model = False
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "sluice.toml":
            data = path.read_bytes()
            talked_of_a_model |= b"outside" in data
            found = [secret for secret in SECRETS if secret.encode() in data]
            assert not found, f"{path} holds {found}"
    assert talked_of_a_model, "or nothing was looked at"


async def test_crash_in_the_middle_of_a_call_tells_no_prompt(
    server: RedisServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    redis: Redis = server.client()
    async with edge(server, redis, tmp_path) as one:

        async def broken(*_: object) -> None:
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(type(one.parts.pipeline), "_relay", broken)
        with caplog.at_level(logging.DEBUG):
            sent = body(messages=[{"role": "user", "content": PROMPT}], user=USER)
            response = await one.post(sent)
        assert b"server_error" in response.body
        assert "a mistake of ours" in caplog.text
        assert not [secret for secret in (PROMPT, USER) if secret in caplog.text]
    await redis.aclose()
