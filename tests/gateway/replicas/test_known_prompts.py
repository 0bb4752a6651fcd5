"""A conversation stays where its prompt is cached, by the price of that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from gateway.catalog.catalog import Catalog
from gateway.catalog.fleet import FleetKeeper, PublishedPool, PublishedReplica, _Fleet
from gateway.replicas.known_prompts import KnownPrompts
from gateway.replicas.placement import Computed, Placement
from gateway.upstream import fake
from routing.replicas.blocks import NO_BEGINNING, Beginning, chain_of
from routing.replicas.work import Work
from routing.types import ReplicaState
from tests.gateway.admin.test_pools import send
from tests.gateway.edge import FAR, Edge, body, edge
from tests.gateway.speeds.test_arrivals import Times
from tests.redis_server import RedisServer
from tests.routing.fleets import MODELS, NOW_S, call, pool

SAID = "The mill stands by the river and grinds. " * 30
HOME, CHEAP = "outside", "cheap"
PROMPT = Beginning(chain_of(b"x" * 1200, "org"), "", "org")
COSTS = {"cost_input_usd_per_mtok": "1", "cost_output_usd_per_mtok": "0"}
CACHED = {"cost_cached_input_usd_per_mtok": "0.1"}


def turn(*texts: str, **changes: Any) -> dict[str, Any]:
    messages = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    return body(model=FAR, messages=messages, max_tokens=8, **changes)


FIRST = turn(SAID, provider={"only": [f"pool:{HOME}"]})
NEXT = turn(SAID, "Good.", "And then?")


class Caching:
    """A server that has three quarters of each prompt whose first message it has seen."""

    def __init__(self, share: float = 0.75) -> None:
        self._share = share
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, request: fake.Request) -> fake.Script:
        first = request.body["model"], request.body["messages"][0]["content"]
        cached = round(400 * self._share) if first in self._seen else 0
        self._seen.add(first)
        frames = fake.plain_frame("hi", "stop"), fake.plain_usage(400, 1, cached=cached)
        return fake.stream(*frames, fake.DONE)


@asynccontextmanager
async def two_outside(
    redis_server: RedisServer, redis: Redis, folder: Path
) -> AsyncIterator[tuple[Edge, fake.FakeUpstream]]:
    """One server with a price of its cache, and one that is cheaper without."""
    home = {"model": FAR} | COSTS | CACHED
    async with (
        fake.FakeUpstream(Caching()) as server,
        edge(redis_server, redis, folder, outer=server.address, outer_pool=home) as one,
    ):
        other = {"model": FAR, "capacity_class": "external", "upstream_model": "cheap-tale"}
        other |= COSTS | {"base_url": f"{server.address}/v1", "cost_input_usd_per_mtok": "0.9"}
        status, told = await send(one, "PUT", f"/pools/{CHEAP}", other)
        assert status == 200, told
        await one.parts.catalog.refresh()
        yield one, server


async def served(one: Edge, wanted: dict[str, Any], session: str = "") -> str:
    headers = {"x-session-id": session} if session else {}
    response = await one.post(wanted, headers=headers)
    assert response.status == 200, response.body
    await one.parts.fleet.refresh()
    return response.headers["x-sluice-pool"]


@pytest.fixture
async def outside(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with two_outside(redis_server, redis, tmp_path) as (one, _):
        yield one


async def test_a_conversation_stays_with_the_provider_that_has_it_while_that_lasts(
    outside: Edge,
) -> None:
    assert await served(outside, NEXT) == CHEAP
    assert await served(outside, FIRST) == HOME
    assert await served(outside, NEXT) == HOME, "its cache is cheaper than a cheaper server"
    assert await served(outside, turn("Another one.", SAID, SAID)) == CHEAP
    outside.watch.passed_s += 200
    assert await served(outside, NEXT) == HOME
    outside.watch.passed_s += 200
    assert await served(outside, NEXT) == HOME, "the time counts from its last use"
    outside.watch.passed_s += 301
    assert await served(outside, NEXT) == CHEAP
    await outside.settled()


async def test_the_price_decides_and_no_rule_of_its_own(outside: Edge) -> None:
    assert await served(outside, FIRST) == HOME
    dear = {"cost_input_usd_per_mtok": "9", "cost_cached_input_usd_per_mtok": "8"}
    await send(outside, "PATCH", f"/pools/{HOME}", dear)
    await outside.parts.catalog.refresh()
    assert await served(outside, NEXT) == CHEAP


async def test_a_session_stays_as_well_whatever_its_prompt_begins_with(outside: Edge) -> None:
    assert await served(outside, FIRST, "thread-81") == HOME
    others = [turn(f"The {number}. story begins quite differently. " * 30) for number in range(3)]
    assert await served(outside, others[0], "thread-81") == HOME
    assert await served(outside, others[1], "thread-82") == CHEAP
    assert await served(outside, others[2] | {"prompt_cache_key": "thread-81"}) == HOME


async def test_a_decision_is_repeated_with_what_was_known_then(outside: Edge) -> None:
    await served(outside, FIRST)
    response = await outside.post(NEXT)
    rid = response.headers["x-request-id"]
    await outside.settled()
    outside.watch.passed_s += 1000
    explained = await outside.explained(rid)
    assert explained.candidates[0].pool == HOME


async def test_what_is_cached_is_booked_at_its_price(outside: Edge) -> None:
    for _ in range(2):
        await served(outside, FIRST)
    *_, call = (await outside.settled()).values()
    (attempt,) = call.attempts
    assert (attempt.input, attempt.cached_input) == (100, 300)
    assert attempt.cached_input_nanousd_per_mtok == 100_000_000


async def test_a_server_that_caches_nothing_loses_its_credit(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with two_outside(redis_server, redis, tmp_path) as (one, server):
        server.behaviour = Caching(0.0)
        assert await served(one, FIRST) == HOME
        pools = [await served(one, NEXT) for _ in range(40)]
        assert pools[0] == HOME
        assert pools[-1] == CHEAP
        status, row = await send(one, "GET", f"/calibrations/{HOME}", {})
        assert status == 200 and row["kept_share"] < 0.5


def known_here(stale_s: float = 60.0) -> tuple[KnownPrompts, Placement, Times]:
    """Two pools of one replica each, of which one has the prompt."""
    clock = Times(NOW_S)
    catalog = Catalog(1, MODELS, (pool("a"), pool("b")), {})
    fleet = FleetKeeper(
        *(cast(Redis, None), lambda: catalog, lambda _: None, clock), poll_s=1.0, stale_s=stale_s
    )
    replicas = {
        name: PublishedReplica(f"r-{name}", "http://x", ReplicaState.WARM, 0) for name in "ab"
    }
    pools = [PublishedPool(name, 1, replicas=(each,)) for name, each in replicas.items()]
    fleet.publish(_Fleet(1, 0, tuple(pools)))
    placement = Placement(Random(1))
    placement.hear(Computed("r-a", PROMPT.chain, 0))
    return KnownPrompts(placement, fleet, clock), placement, clock


def test_a_pool_has_what_a_replica_has_that_is_not_full() -> None:
    known, placement, _ = known_here()
    wanted = call(prompt_tokens={"small": 400})
    assert known.tokens(wanted, PROMPT) == {"a": 400 * 4 * 256 // 1200}
    assert known.tokens(wanted, NO_BEGINNING) is None
    assert known.tokens(wanted, PROMPT._replace(chain=chain_of(b"x" * 1200, "another"))) is None
    full = [placement.outstanding.begin("r-a", Work(1)) for _ in range(pool().max_ongoing)]
    assert known.tokens(wanted, PROMPT) is None
    full[0].end()
    assert known.tokens(wanted, PROMPT) is not None


def test_a_call_that_waits_is_told_what_is_known_by_then() -> None:
    known, placement, _ = known_here()
    wanted = call(prompt_tokens={"small": 400})
    told = known.with_prefixes(wanted, PROMPT)
    assert told.prefix_tokens == known.tokens(wanted, PROMPT)
    assert known.with_prefixes(told, PROMPT) is told
    placement.prefixes.keep_only(["r-b"])
    assert known.with_prefixes(told, PROMPT) == wanted


def test_a_stale_picture_gives_no_credit() -> None:
    known, _, clock = known_here(stale_s=5.0)
    wanted = call(prompt_tokens={"small": 400})
    assert known.tokens(wanted, PROMPT) is not None
    clock.now_s += 6.0
    assert known.tokens(wanted, PROMPT) is None
