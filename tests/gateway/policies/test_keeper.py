"""A gateway follows the active version, says which one it runs, and keeps a good one."""

import logging

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.recovery.primer import GATEWAYS_KEY
from gateway.policies.active import ActivePolicy
from gateway.policies.document import compiled
from gateway.policies.shipped import SHIPPED_VERSION, shipped_policy
from gateway.policies.tables import POLICIES
from gateway.tenants.store import TenantStore
from gateway.versions.keeper import VersionKeeper
from routing.policy.rules import RoutingPolicy
from tests.gateway.policies.stored import activated, added, document

NOW_S = 1_700_000_000.0


def keeper(tenants: TenantStore, redis: Redis, name: str = "gw-1") -> VersionKeeper[RoutingPolicy]:
    return VersionKeeper(
        *(POLICIES, tenants._store, redis),
        active=ActivePolicy(shipped_policy()),
        load=lambda document, version: compiled(document, revision=version),
        first_version=SHIPPED_VERSION,
        gateway_id=name,
        poll_s=0.01,
        clock=lambda: NOW_S,
    )


async def test_each_gateway_runs_the_active_version_and_says_so(
    tenants: TenantStore, redis: Redis
) -> None:
    one, other = keeper(tenants, redis), keeper(tenants, redis, "gw-2")
    for name in ("gw-1", "gw-2", "gw-silent"):
        await redis.zadd(GATEWAYS_KEY, {name: NOW_S * 1000})
    await redis.zadd(GATEWAYS_KEY, {"gw-dead": NOW_S * 1000 - 60_000})
    versions = [added(tenants, document(rule)) for rule in "ab"]
    activated(tenants, versions[0], expects=None)
    await one.refresh()
    await other.refresh()
    activated(tenants, versions[1])
    await one.refresh()
    assert one._active.current.rules[0].id == "b"
    assert [(each.id, each.version, each.since_us) for each in await one.gateways()] == [
        ("gw-1", versions[1], round(NOW_S * 1e6)),
        ("gw-2", versions[0], round(NOW_S * 1e6)),
        ("gw-silent", None, None),
    ]


async def test_a_broken_version_leaves_the_last_good_one_in_force_loudly(
    tenants: TenantStore, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    one = keeper(tenants, redis)
    activated(tenants, added(tenants, document("good")), expects=None)
    await one.refresh()
    kept = one._active.current
    for text_of, words in (("rules: 7", "'default' is missing"), ("a: [", "not YAML")):
        version = added(tenants, text_of)
        activated(tenants, version)
        with caplog.at_level(logging.ERROR):
            await one.refresh()
        assert one._active.current is kept
        assert one.broken is not None and one.broken.version == version
        assert words in one.broken.message and words in caplog.text
        assert one.running.broken == one.broken
    activated(tenants, added(tenants, document("better")))
    await one.refresh()
    assert one.broken is None and one._active.current.rules[0].id == "better"


async def test_a_document_that_was_changed_in_the_database_is_broken(
    tenants: TenantStore, redis: Redis
) -> None:
    one = keeper(tenants, redis)
    activated(tenants, added(tenants, document("good")), expects=None)
    with tenants._store.write() as conn:
        conn.execute(text("DROP TRIGGER policy_version_insert_only_update"))
        conn.execute(text("UPDATE policy_version SET document = document || '# more'"))
    await one.refresh()
    assert one.broken is not None and "not the one that was sent" in one.broken.message
    assert one._active.current.rules[0].id == "priority"


async def test_redis_that_is_away_keeps_no_gateway_from_its_policy(
    tenants: TenantStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with Redis.from_url("redis://127.0.0.1:1", retry=None) as nowhere:  # type: ignore[arg-type]
        one = keeper(tenants, nowhere)
        activated(tenants, added(tenants, document("good")), expects=None)
        await one.refresh()
    assert one._active.current.rules[0].id == "good"
    assert "other gateways do not hear" in caplog.text
