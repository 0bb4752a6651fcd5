"""Providers in the console: how they are, a test of one, prices with what changed, bills."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import FAR, Edge, edge
from tests.redis_server import RedisServer

HOME = "/console/providers"
KEY, SECRET = "SLUICE_PROVIDER_KEY_A", "sk-provider-aaaa1111"
STORY = fake.stream(fake.plain_frame("Once"), fake.plain_frame("", "stop"), fake.DONE)
RATE = {"model": "their-tale", "input_usd_per_mtok": "2", "output_usd_per_mtok": "8"}
BILL = (
    f"day,model,usage_class,quantity,amount\n2026-11-02,{HOSTILE.replace(',', '')},input,1,3.50\n"
)


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    pool = {"model": FAR, "provider": "acme", "cost_input_usd_per_mtok": "1"}
    more: dict[str, Any] = {"outer_pool": pool, "environment": {KEY: SECRET}}
    refusal = fake.refusal(401, {"message": f"Incorrect API key: {SECRET}"})
    answers = [STORY, refusal]
    async with (
        fake.FakeUpstream(lambda _: answers.pop(0)) as server,
        edge(redis_server, redis, tmp_path, outer=server.address, **more) as running,
    ):
        yield running


async def put(one: Edge, method: str, path: str, sent: Any = None) -> None:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, f"/admin/v1/providers/acme{path}", raw, "admin")
    assert status < 300, answer


async def test_page_has_health_keys_prices_with_changes_bills_and_no_secret(one: Edge) -> None:
    async with browser(one) as client:
        assert (await client.get(HOME)).status_code != 200, "nobody has signed in"
        await sign_in(client)
        bare = (await client.get(HOME)).text
        assert "acme" in bare and "its pools name their keys" in bare
        limited = {"name": KEY, "requests_per_minute": 60}
        await put(one, "PUT", "", {"keys": [limited, {"name": "SLUICE_PROVIDER_KEY_B"}]})
        for start, price in (("2026-01-01", "2"), ("2026-02-01", "3")):
            body = {"from": start + "T00:00:00Z", "rates": [RATE | {"input_usd_per_mtok": price}]}
            await put(one, "POST", "/price-lists", body)
        await put(one, "POST", "/price-lists/1/approve")
        await put(one, "POST", "/reconciliations", {"file": BILL})
        page = (await client.get(HOME)).text
        assert "USD this month" in page and "keys that are gone" not in page
        assert "60 calls a minute" in page and "this gateway has no such key" in page
        assert "Price list 2" in page and "draft" in page and "approved by admin" in page
        assert "3.50" in page and "1 line of 1 differ" in page
        tested = await client.post(f"{HOME}/acme/check")
        assert "It works: outside answered in" in tested.text and KEY in tested.text
        tested = await client.post(f"{HOME}/acme/check")
        assert "status 401" in tested.text and "Incorrect API key: [key]" in tested.text
        assert SECRET not in page + tested.text + bare
        elsewhere = {"sec-fetch-site": "cross-site"}
        sent = await client.post(f"{HOME}/acme/check", headers=elsewhere)
        assert sent.status_code == 303, "another site tests nothing"
        unknown = await client.post(f"{HOME}/nobody/check")
        assert "There is no" in unknown.text
