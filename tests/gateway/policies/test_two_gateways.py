"""Two gateways as processes over one Redis and one database: what one of them activates both run,
and both say so; what neither can run neither does, and both say why."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from billing.db.engine import open_store
from gateway.tenants.store import TenantStore
from gateway.upstream import fake
from tests.empty_database import put_empty_database
from tests.gateway.policies.stored import HEAD, activated, added
from tests.gateway_processes import ADMIN_KEY, API_KEY, Gateways, gateways
from tests.redis_server import RedisServer

PATIENCE_S = 120.0
EACH = range(2)
CLOSED = HEAD + "rules: []\ndefault: {route: {ignore: [pool:outside]}}\n"
"""No call goes anywhere under it."""
WHY = {"comment": "because"}
CALL = {"model": "outside", "messages": [{"role": "user", "content": "x"}], "max_tokens": 9}


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A test that takes it runs twice."""
    if request.param == "sqlite":
        put_empty_database(tmp_path / "sluice.db")
        yield f"sqlite:///{tmp_path / 'sluice.db'}"
        return
    migrated: str = request.getfixturevalue("migrated")
    with request.getfixturevalue("postgres").copy_of(migrated) as url:
        yield url


@asynccontextmanager
async def two(server: RedisServer, data: Path, sql_url: str) -> AsyncIterator[Gateways]:
    last = fake.plain_frame(finish="stop") + fake.plain_usage(4, 6) + fake.DONE

    def tell(_: fake.Request) -> fake.Script:
        return fake.Script([fake.Send(fake.plain_frame("once ")), fake.Send(last)])

    async with (
        fake.FakeUpstream(tell) as upstream,
        gateways(server, data, upstream.address, count=len(EACH), sql_url=sql_url) as both,
    ):
        yield both


async def statuses(both: Gateways) -> list[int]:
    """Of a call at each gateway."""
    return [(await ask(both, n, "POST", "/v1/chat/completions", API_KEY, CALL))[0] for n in EACH]


async def metrics(both: Gateways) -> list[str]:
    return [(await ask(both, n, "GET", "/metrics", ADMIN_KEY))[1] for n in EACH]


async def ask(
    both: Gateways, number: int, method: str, path: str, key: str, sent: Any = None
) -> tuple[int, str]:
    named = {"authorization": f"Bearer {key}"}
    url = both.url(number, path)
    async with both.session.request(method, url, headers=named, json=sent) as answer:
        return answer.status, await answer.text()


async def all_say(both: Gateways, expected: Callable[[dict[str, Any]], bool]) -> None:
    """Until each gateway reports it of itself, whichever of them is asked."""
    async with asyncio.timeout(PATIENCE_S):
        for number in EACH:
            while not await _agree(both, number, expected):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def _agree(both: Gateways, number: int, expected: Callable[[dict[str, Any]], bool]) -> bool:
    _, text = await ask(both, number, "GET", "/admin/v1/policies/active", ADMIN_KEY)
    reports = json.loads(text)["gateways"]
    return len(reports) == len(EACH) and all(map(expected, reports))


async def test_both_run_what_one_activates_and_a_good_version_while_the_active_one_is_broken(
    redis_server: RedisServer, tmp_path: Path, sql_url: str
) -> None:
    async with two(redis_server, tmp_path, sql_url) as both:
        await all_say(both, lambda each: each["version"] == 1)
        assert await statuses(both) == [200, 200]

        version = (await both.admin("POST", "/policies", {"document": CLOSED, **WHY}))["version"]
        await both.admin("POST", f"/policies/{version}/activate", WHY)
        await all_say(both, lambda each: bool(each["version"] == version and each["since"]))
        assert await statuses(both) == [403, 403]
        await both.admin("POST", "/policies/rollback", WHY)
        await all_say(both, lambda each: each["version"] == 1)
        assert await statuses(both) == [200, 200]

        broken = activated_in_sql(sql_url, "rules: 7")
        await all_say(
            both,
            lambda each: each["version"] == 1 and (each["broken"] or {}).get("version") == broken,
        )
        assert await statuses(both) == [200, 200]
        assert all("sluice_policy_broken 1" in text for text in await metrics(both))
        await both.admin("POST", f"/policies/{version}/activate", WHY)
        await all_say(both, lambda each: each["version"] == version and each["broken"] is None)
        assert await statuses(both) == [403, 403]
    for number in EACH:
        log = (tmp_path / f"{number}.log").read_text()
        assert f"policy: version {broken} is broken, 1 stays" in log


def activated_in_sql(sql_url: str, text: str) -> int:
    """As nobody can over the API, which would refuse it."""
    store = open_store(sql_url)
    try:
        tenants = TenantStore(store)
        version = added(tenants, text)
        activated(tenants, version)
        return version
    finally:
        store.close()
