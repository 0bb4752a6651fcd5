"""What a key may use: models, tiers, capacity, regions, pools and who may keep its prompts, of the
narrowest of its scopes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.admin.entitlements.service import EntitlementService
from gateway.admin.keys.service import KeyService
from gateway.admin.organizations.service import OrganizationService
from gateway.admin.use_cases import admin_store
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, FAR, POOLS, Edge, body, edge, story
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def allow(one: Edge, scope: str = f"key:{KEY_ID}", **leave: Any) -> None:
    await EntitlementService(admin_store(one.parts)).set(scope, leave)


async def test_model_that_the_key_may_not_use_looks_like_an_unknown_one(one: Edge) -> None:
    await allow(one, models=["free"])
    refused = await one.post(body())
    unknown = await one.post(body(model="nothing"))
    assert (refused.status, refused.error_code) == (404, "model_not_found")
    told, of_unknown = refused.json["error"], unknown.json["error"]
    assert told["message"].replace("tale", "nothing") == of_unknown["message"]
    status, listed = await ask(one.app, "GET", "/v1/models", b"", API_KEY)
    assert (status, [model["id"] for model in listed["data"]]) == (200, ["free"])
    status, _ = await ask(one.app, "GET", "/v1/models/tale", b"", API_KEY)
    assert status == 404


async def test_auto_chooses_among_what_the_key_may_use(one: Edge) -> None:
    await allow(one, f"org:{ORGANIZATION_ID}", models=["tale"])
    response = await one.post(body(model="auto"))
    assert (response.status, response.chunks[0]["model"]) == (200, "tale")
    await allow(one, f"org:{ORGANIZATION_ID}", models=[])
    assert (await one.post(body(model="auto"))).error_code == "model_not_found"
    await one.settled()


async def test_tier_that_the_key_may_not_use_is_refused_and_auto_takes_another(one: Edge) -> None:
    await allow(one, tiers=["flex"])
    refused = await one.post(body(service_tier="priority"))
    assert (refused.status, refused.error_code) == (400, "service_tier_not_allowed")
    assert refused.json["error"]["param"] == "service_tier"
    served = await one.post(body(service_tier="auto"))
    assert served.headers["x-sluice-tier"] == "flex"
    await one.settled()


async def test_capacity_that_the_key_may_not_use_is_never_taken(one: Edge) -> None:
    await allow(one, capacity_classes=["spot"])
    await one.publish_fleet(one.replica(), others="failing")
    refused = await one.post(body())
    assert refused.status == 503, "the spot pool may be used, and cannot start"
    await allow(one, capacity_classes=["external"])
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "capacity_not_allowed")
    assert not one.upstream.requests
    await one.settled()


async def test_old_secret_of_a_rotated_key_works_until_the_overlap_ends(one: Edge) -> None:
    parts = one.parts
    keys = KeyService(admin_store(parts), parts.new_id, parts.outside.entropy)
    _, secret = await keys.rotate(KEY_ID, overlap_s=3600.0)
    for given in (API_KEY, secret):
        assert (await one.post(body(), headers={"authorization": f"Bearer {given}"})).status == 200
    await keys.rotate(KEY_ID, overlap_s=0.0)
    for given in (API_KEY, secret):
        refused = await one.post(body(), headers={"authorization": f"Bearer {given}"})
        assert (refused.status, refused.error_code) == (401, "invalid_api_key")
    assert {call.key for call in (await one.settled()).values()} == {KEY_ID}


async def test_frozen_organization_is_forbidden_in_words(one: Edge) -> None:
    organizations = OrganizationService(admin_store(one.parts), one.parts.new_id)
    await organizations.change(ORGANIZATION_ID, {"status": "frozen"})
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "organization_frozen")


async def test_call_bound_to_regions_runs_on_no_pool_elsewhere(one: Edge) -> None:
    """A pool that is in no region is elsewhere, too."""
    await allow(one, regions=["eu-central", "eu-west"])
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "region_not_allowed")
    path = f"/admin/v1/pools/{POOLS[0]}"
    for region, status in (("us-east", 403), ("eu-west", 200)):
        change = json.dumps({"region": region}).encode()
        assert (await ask(one.app, "PATCH", path, change, "admin"))[1]["region"] == region
        assert (await one.post(body(service_tier="flex"))).status == status
    assert len(one.upstream.requests) == 1
    _, own = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert own["regions"] == ["eu-central", "eu-west"]
    await one.settled()


async def test_call_bound_to_pools_runs_on_no_other(one: Edge) -> None:
    await allow(one, pools=[POOLS[1]])
    await one.publish_fleet(one.replica(), others="failing")
    assert (await one.post(body())).status == 503, "the spot pool may be used, and cannot start"
    await allow(one, f"org:{ORGANIZATION_ID}", pools=[POOLS[2]])
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (403, "pool_not_allowed"), "no pool is in both"
    assert not one.upstream.requests
    for scope in (f"key:{KEY_ID}", f"org:{ORGANIZATION_ID}"):
        await allow(one, scope, pools=[POOLS[0], POOLS[1]])
    served = await one.post(body())
    assert served.headers["x-sluice-pool"] == POOLS[0]
    _, own = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert own["pools"] == sorted(POOLS[:2])
    await one.settled()


async def test_pool_that_there_is_not_is_refused_by_name(one: Edge) -> None:
    path = f"/admin/v1/entitlements/key:{KEY_ID}"
    wrong = json.dumps({"pools": ["nowhere"]}).encode()
    status, told = await ask(one.app, "PUT", path, wrong, "admin")
    assert (status, told["error"]["param"]) == (400, "pools")
    assert "'nowhere'" in told["error"]["message"]


@pytest.mark.parametrize(
    ("scope", "terms", "is_private"),
    [
        (f"key:{KEY_ID}", {}, False),
        (f"key:{KEY_ID}", {"retention_days": 0, "trains": False}, True),
        (f"project:{PROJECT_ID}", {"retention_days": 30, "trains": False}, False),
        (f"org:{ORGANIZATION_ID}", {"retention_days": 0}, False),
    ],
)
async def test_prompts_go_to_nobody_who_may_keep_or_train_on_them(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    scope: str,
    terms: dict[str, Any],
    is_private: bool,
) -> None:
    """What nobody has said of a server counts as yes; own workers do neither."""
    async with (
        fake.FakeUpstream(lambda _: story()) as outer,
        edge(
            *(redis_server, redis, tmp_path),
            outer=outer.address,
            outer_pool={"model": FAR, **terms},
        ) as one,
    ):
        await allow(one, scope, data_collection="deny")
        assert (await one.post(body())).status == 200
        answer = await one.post(body(model=FAR))
        assert bool(outer.requests) is is_private
        if is_private:
            assert answer.status == 200, answer.body
        else:
            assert (answer.status, answer.error_code) == (403, "data_collection_not_allowed")
        _, own = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
        assert own["data_collection"] == "deny"
        await one.settled()
