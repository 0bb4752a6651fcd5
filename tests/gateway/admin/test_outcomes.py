"""What canary and shadow of a version chose, over the admin API and in the console."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.gateway.admin.test_policies import WHY, ask
from tests.gateway.edge import OUTPUT_PRICE, Edge, body, edge
from tests.gateway.outages import ledger, until
from tests.gateway.policies.stored import HEAD
from tests.redis_server import RedisServer

RULES = f"""{HEAD}rules:
  - id: mine
    when: ['tenant.organization == "{ORGANIZATION_ID}"', 'req.service_tier != "flex"']
    route: {{}}
    canary: {{share: SHARE, salt: a, route: {{order: [pool:tale-reserved]}}}}
    shadow: {{route: {{only: [pool:tale-spot]}}}}
default: {{route: {{}}}}
"""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def activated(one: Edge, share: str) -> int:
    _, policy = await ask(one, "POST", "", {"document": RULES.replace("SHARE", share), **WHY})
    version = int(policy["version"])
    assert (await ask(one, "POST", f"/{version}/activate", WHY))[0] == 200
    return version


async def outcomes(one: Edge, version: int, query: str = "") -> Any:
    status, told = await ask(one, "GET", f"/{version}/outcomes{query}")
    assert status == 200, told
    return told


@pytest.mark.parametrize(
    ("share", "side", "other"), [("1", "canary", "stable"), ("0", "stable", "canary")]
)
async def test_calls_are_counted_on_the_side_that_took_them(
    one: Edge, redis: Redis, tmp_path: Path, share: str, side: str, other: str
) -> None:
    version = await activated(one, share)
    for tier in ("default", "priority", "flex"):
        assert (await one.post(body(service_tier=tier))).status == 200
    await one.publish_fleet(others="no node", blocked="no node")
    assert (await one.post(body())).status == 503
    await one.parts.decision_recorder.close()

    async def told() -> bool:
        (canary,) = (await outcomes(one, version))["canaries"]
        return bool(canary[side]["calls"] == 3)

    async with ledger(redis, tmp_path):
        await until(told)
    (canary,) = (await outcomes(one, version))["canaries"]
    assert (canary["rule"], canary["share"], canary["by"]) == ("mine", float(share), "organization")
    counts = [canary[side][name] for name in ("answered", "failed", "cancelled", "refused")]
    assert counts == [2, 0, 0, 1]
    assert canary[side]["ttft_s_p95"] >= canary[side]["ttft_s_p50"] > 0
    assert float(canary[side]["price_usd"]) > 8 * OUTPUT_PRICE / 1e15
    assert canary[side]["cogs_usd"] is not None
    assert (canary[other]["calls"], canary[other]["price_usd"]) == (0, None)


async def test_shadow_says_how_often_it_differed_and_where(one: Edge) -> None:
    version = await activated(one, "0")
    rids = [(await one.post(body())).headers["x-request-id"] for _ in range(3)]
    await one.post(body(service_tier="flex"))
    await one.parts.decision_recorder.close()
    await one.write_decisions()
    told = await outcomes(one, version, "?hours=1")
    (shadow,) = told["shadows"]
    assert (shadow["rule"], shadow["decisions"], shadow["differ"]) == ("mine", 3, 3)
    assert [each["id"] for each in shadow["examples"]] == rids[::-1]
    first = shadow["examples"][0]
    assert first["chosen"] == {"pool": "tale-reserved", "model": "tale"}
    assert first["shadow"] == {"pool": "tale-spot", "model": "tale"}
    assert first["price_difference_usd"] == "0.00", "one model has one price"
    assert first["cogs_difference_usd"] != "0.00"
    assert (shadow["refused"], shadow["price_difference_usd"]) == (0, "0.00")


async def test_version_without_either_has_nothing_to_say_and_an_unknown_one_is_not_there(
    one: Edge,
) -> None:
    assert (await outcomes(one, 1))["canaries"] == (await outcomes(one, 1))["shadows"] == []
    assert (await ask(one, "GET", "/99/outcomes"))[0] == 404
    status, told = await ask(one, "GET", "/1/outcomes?hours=25")
    assert (status, told["error"]["param"]) == (400, "hours")
