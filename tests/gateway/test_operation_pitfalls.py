"""What users of other gateways suffer from, in running one: what is held, whose word wins, how many
connections there are, and how soon a change is everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.db.engine import open_store
from gateway.admin.keys.service import KeyService
from gateway.admin.use_cases import AdminStore
from gateway.catalog.bootstrap import KEY_ID
from gateway.catalog.tables import ModelRow
from gateway.tenants.store import CONNECTIONS_MAX, TenantStore
from gateway.upstream import fake
from migrations.run import migrate
from tests.gateway.catalog.served import Served
from tests.gateway.edge import API_KEY, OUTPUT_PRICE, Edge, body, edge, story
from tests.postgres_fixtures import Databases, postgres
from tests.redis_server import RedisServer

__all__ = ["postgres"]

BEHIND_S = 30.0
"""Of changes that are in every gateway within five, on a machine that has other things to do."""
LOOKERS = 40
TOKEN_NANO = OUTPUT_PRICE // 10**6


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def get(one: Edge, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(app=one.app)
    headers = {"authorization": f"Bearer {API_KEY}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway.test") as client:
        return await client.get(path, headers=headers)


async def until(look: Any, within_s: float = BEHIND_S) -> None:
    async with asyncio.timeout(within_s):
        while not await look():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


# --- G19, G39: what is held, and whose word wins --------------------------------------------------


@pytest.mark.parametrize("ceiling", [{}, {"max_tokens": 1}, {"max_tokens": 500}], ids=str)
async def test_g19_prompt_is_held_whatever_is_said_of_the_output(
    one: Edge, ceiling: dict[str, int]
) -> None:
    wanted = body(stream=False, stream_options=None, max_tokens=None) | ceiling
    text_of_prompt = "x" * 300
    wanted["messages"] = [{"role": "user", "content": text_of_prompt}]
    held: list[int] = []

    def look(_: fake.Request) -> fake.Script:
        held.extend(call.held_nanousd for call in one.parts.accounts.open.values())
        return story()

    one.upstream.behaviour = look
    response = await one.post({k: v for k, v in wanted.items() if v is not None})
    assert response.status == 200
    prompt_nano = len(text_of_prompt) * 1000
    assert held and held[0] >= prompt_nano + TOKEN_NANO
    await one.settled()


async def test_g39_deadline_of_a_request_wins_over_that_of_its_tier(one: Edge) -> None:
    await one.publish_fleet(one.replica(state="STARTING"), others="no capacity")
    response = await one.post(body(), headers={"x-sluice-deadline-ms": "50"})
    assert response.status in (503, 504)
    assert int(response.headers["retry-after"]) >= 1
    await one.settled()


@pytest.mark.parametrize("tier", ["flex", "default", "priority"])
async def test_g39_tier_of_a_request_is_the_one_that_is_served(one: Edge, tier: str) -> None:
    response = await one.post(body(service_tier=tier))
    assert response.headers["x-sluice-tier"] == tier
    assert {chunk["service_tier"] for chunk in response.chunks} == {tier}
    await one.settled()


# --- G44, G47: connections ------------------------------------------------------------------------


def test_g44_many_who_read_at_once_share_few_connections(postgres: Databases) -> None:
    with postgres.copy_of("template0") as url:
        migrate(url)
        few = open_store(url, connections_max=CONNECTIONS_MAX)
        watcher = open_store(url, connections_max=1)
        try:
            store = TenantStore(few)
            with ThreadPoolExecutor(LOOKERS) as crowd:
                found = [crowd.submit(store.every, ModelRow) for _ in range(10 * LOOKERS)]
                counts = [_connections(watcher.engine) for _ in range(20)]
                assert all(list(rows.result()) == [] for rows in found)
            assert max(counts) <= CONNECTIONS_MAX + 1
        finally:
            few.close()
            watcher.close()


def _connections(engine: Any) -> int:
    count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    with engine.connect() as connection:
        found: int = connection.execute(text(count)).scalar_one()
        return found


async def test_g47_client_of_servers_lives_as_long_as_what_it_reads(one: Edge) -> None:
    """Whatever changes meanwhile: models, pools and the fleet are replaced in the middle of it."""
    one.upstream.behaviour = lambda _: story(frames=12, pause_s=0.05)
    calls = [asyncio.create_task(one.post(body())) for _ in range(8)]
    serving = Served(one.parts.tenants, one.parts.outside.clock)
    for round_ in range(5):
        size = {"context_tokens": 64 + round_, "max_output_tokens": 8, "size_rank": 1, "quality": 0}
        await serving.put_model(f"other-{round_}", size)
        await one.parts.catalog.refresh()
        await one.publish_fleet(one.replica(f"r{round_ + 2}"))
    for response in await asyncio.gather(*calls):
        assert response.status == 200 and response.events[-1] == "[DONE]"
    await one.settled()


# --- G48: propagation -----------------------------------------------------------------------------


async def test_g48_model_changed_by_another_gateway_is_seen_here_and_leaves_no_ghost(
    one: Edge,
) -> None:
    """Another gateway writes to SQL and tells nobody; revisions only rise."""
    elsewhere = Served(TenantStore(one.parts.tenants._store), one.parts.outside.clock)
    size = {"context_tokens": 64, "max_output_tokens": 8, "size_rank": 1, "quality": 0.1}
    before = one.parts.catalog.catalog.revision

    async def is_there() -> bool:
        return (await get(one, "/v1/models/fresh")).status_code == 200

    async def has_gone() -> bool:
        return (await get(one, "/v1/models/fresh")).status_code == 404

    await elsewhere.put_model("fresh", size)
    await until(is_there)
    after = one.parts.catalog.catalog.revision
    await elsewhere.disable_model("fresh")
    await until(has_gone)
    assert before < after < one.parts.catalog.catalog.revision
    listed = (await get(one, "/v1/models")).json()["data"]
    assert "fresh" not in {model["id"] for model in listed}


async def test_g48_key_revoked_by_another_gateway_stops_here(
    one: Edge,
) -> None:
    outside = one.parts.outside
    store = AdminStore(TenantStore(one.parts.tenants._store), outside.clock, forget=lambda: None)
    elsewhere = KeyService(store, one.parts.new_id, outside.entropy)
    assert (await get(one, "/v1/models")).status_code == 200
    await elsewhere.revoke(KEY_ID)

    async def has_stopped() -> bool:
        return (await get(one, "/v1/models")).status_code == 401

    await until(has_stopped)
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (401, "invalid_api_key")
