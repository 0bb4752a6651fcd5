"""Explain says what then happens, whatever the call, its own wishes, rule and entitlement."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import CHAT, COMPLETIONS, Edge, edge
from tests.redis_server import RedisServer

ADMIN = "admin"
POLICY = """apiVersion: gateway/v1
kind: RoutingPolicy
rules:
  - {id: spot, when: ['req.metadata.way == "spot"'], route: {only: [pool:tale-spot]}}
  - {id: cheap, when: ['req.metadata.way == "cheap"'], route: {sort: price}}
  - {id: ours, when: ['req.metadata.way == "ours"'], route: {data_collection: deny}}
  - {id: far, when: ['req.metadata.way == "far"'], route: {order: [pool:outside], ignore: [pool:tale-reserved]}}
  - {id: low, when: ['req.metadata.way == "low"'], route: {max_price: {out_per_1m: "0"}}}
  - {id: one, when: ['req.metadata.way == "one"', 'req.stream'], route: {allow_fallbacks: false}}
  - {id: long, when: ['req.est_tokens > 30'], route: {wait_usd_per_s: "1"}}
default: {route: {sort: latency}}
"""  # noqa: E501
WAYS = ("spot", "cheap", "ours", "far", "low", "one", "none")
TARGETS = ("tale-reserved", "pool:tale-spot", "pool:outside", "nowhere", "provider:nobody")
PLACES = st.lists(st.sampled_from(TARGETS), min_size=1, max_size=3)


@dataclass(slots=True)
class Bench:
    """One gateway for all examples, on a loop that runs while one of them does."""

    runner: asyncio.Runner
    edge: Edge


@asynccontextmanager
async def _gateway(server: RedisServer, folder: Path) -> AsyncIterator[Edge]:
    """With own workers, a pool that has no node, and a server outside."""
    async with (
        fake.FakeUpstream(_answer) as outside,
        server.client() as redis,
        edge(server, redis, folder, outer=outside.address) as one,
    ):
        await one.publish_fleet(*(one.replica(name) for name in ("r1", "r2")), others="no node")
        for path, sent in (
            ("", {"document": POLICY, "comment": "a law"}),
            ("/2/activate", {"comment": "a law"}),
        ):
            target = f"/admin/v1/policies{path}"
            status, told = await ask(one.app, "POST", target, json.dumps(sent).encode(), ADMIN)
            assert status < 300, told
        yield one


def _answer(request: fake.Request) -> fake.Script:
    write = fake.plain_frame if request.path.endswith("/chat/completions") else fake.plain_text
    return fake.stream(write("Once."), write("", "stop"), fake.plain_usage(9, 2), fake.DONE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
        asyncio.Runner() as runner,
    ):
        gateway = _gateway(server, Path(folder))
        yield Bench(runner, runner.run(gateway.__aenter__()))
        runner.run(gateway.__aexit__(None, None, None))


wishes = st.fixed_dictionaries(
    {},
    optional={
        "only": PLACES,
        "ignore": PLACES,
        "order": PLACES,
        "sort": st.sampled_from(["price", "latency", "throughput"]),
        "allow_fallbacks": st.booleans(),
        "data_collection": st.sampled_from(["allow", "deny"]),
        "quantizations": st.sampled_from([["fp16"], ["int8"]]),
        "max_price": st.sampled_from([{"completion": 1000}, {"completion": 0.001}]),
    },
)
said = st.sampled_from(["Hi.", "Tell me of the mill by the river. " * 9])
generating = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["tale", "tale", "tale", "auto", "auto", "nobody"]),
        "max_tokens": st.sampled_from([1, 64]),
        "metadata": st.fixed_dictionaries({"way": st.sampled_from(WAYS)}),
    },
    optional={
        "provider": wishes,
        "service_tier": st.sampled_from(["auto", "default", "flex", "priority"]),
        "stream": st.booleans(),
    },
)
chats = st.tuples(
    st.just(CHAT),
    st.builds(
        lambda words, text: {**words, "messages": [{"role": "user", "content": text}]},
        generating,
        said,
    ),
)
completions = st.tuples(
    st.just(COMPLETIONS),
    st.builds(lambda words, text: {**words, "prompt": text}, generating, said).map(
        lambda wanted: {name: wanted[name] for name in wanted if name != "metadata"}
    ),
)
calls = st.one_of(chats, chats, completions)
entitlements = st.fixed_dictionaries(
    {},
    optional={
        "capacity_classes": st.sampled_from([["reserved"], ["external"], ["spot", "external"]]),
        "pools": st.sampled_from([["tale-reserved"], ["outside", "vectors"]]),
        "regions": st.just(["eu"]),
    },
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(call=calls, leave=st.one_of(st.just({}), entitlements))
def test_explain_says_what_then_happens(
    bench: Bench, call: tuple[str, dict[str, Any]], leave: dict[str, Any]
) -> None:
    bench.runner.run(_explained_then_called(bench.edge, *call, leave))


async def _explained_then_called(
    one: Edge, path: str, wanted: dict[str, Any], leave: dict[str, Any]
) -> None:
    scope = f"/admin/v1/entitlements/key:{KEY_ID}"
    status, told = await ask(one.app, "PUT", scope, json.dumps(leave).encode(), ADMIN)
    assert status == 200, told
    asked = {"url": path, "body": wanted, "key": KEY_ID}
    status, foretold = await ask(
        one.app, "POST", "/admin/v1/route/explain", json.dumps(asked).encode(), ADMIN
    )
    response = await one.post(wanted, path=path)
    if status != 200:
        assert (response.status, response.json) == (status, foretold)
        return
    if (refusal := foretold["refusal"]) is not None:
        assert response.status is not None and response.status >= 400
        assert refusal["message"] in response.json["error"]["message"]
    else:
        assert response.status == 200, response.body
        first = foretold["candidates"][0]
        assert first["eligible"]
        assert response.headers["x-sluice-pool"] == first["pool"]
        assert response.headers["x-sluice-decision"] == f"{first['pool']} {first['reason']}"
    happened = await one.explained(response.headers["x-request-id"])
    assert happened.rule == foretold["rule"]
    assert happened.policy_revision == foretold["policy_revision"] == 2
    assert [each._asdict() for each in happened.clauses] == foretold["clauses"]
    assert [(each.pool, each.eligible, each.reason) for each in happened.candidates] == [
        (each["pool"], each["eligible"], each["reason"]) for each in foretold["candidates"]
    ]
