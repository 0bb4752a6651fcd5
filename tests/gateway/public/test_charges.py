"""A tenant's running month over HTTP: its own alone, and as its invoice would say it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.prices.versions import put_into_force
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.invoices.test_invoices import book, call
from tests.gateway.admin.test_documents import RATES
from tests.gateway.api.asgi import answer
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

PATH = "/v1/organization/charges/current"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def test_running_month_is_the_tenants_own(one: Edge) -> None:
    store = one.parts.ledger
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    now_us = round(one.parts.outside.clock() * 1e6)
    for rid, org in (("req_1", ORGANIZATION_ID), ("req_2", "org_other")):
        made = call(store, rid, now_us, org=org, output=9_000_000)
        book(store, made, now_us=now_us)
    told = await answer(one.app, "GET", PATH, headers={"authorization": f"Bearer {API_KEY}"})
    assert told.status == 200, told.body
    assert_described(one.app, "GET", PATH, told.status, told.json)
    assert told.json["organization"] == ORGANIZATION_ID
    usage = sum(line["amount_nanousd"] for line in told.json["lines"] if line["kind"] == "usage")
    assert usage == made.amount_nanousd, "another's are not in it"
    ends = [float(told.json["forecast_usd"][name]) for name in ("low", "expected", "high")]
    assert ends == sorted(ends) and ends[0] >= round(usage / 1e9, 6)
    assert (await answer(one.app, "GET", PATH, headers={})).status == 401
