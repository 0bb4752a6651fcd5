"""The `provider` object: on every route that calls a model its words are OpenRouter's, a wrong one
is refused by its name, and a call goes only where its own words allow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.errors import ApiError
from gateway.upstream import fake
from gateway.wire.anthropic.body import parse_message
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from gateway.wire.responses.body import parse_response
from routing.policy.action import LatencyPreference, PriceBound, Sort, Target, TargetKind
from routing.policy.narrow import Preferences
from tests.gateway.edge import POOLS, edge, story
from tests.redis_fixtures import redis, redis_server
from tests.redis_server import RedisServer

__all__ = ["redis", "redis_server"]
POOL, PROVIDER = TargetKind.POOL, TargetKind.PROVIDER


def _completion(body: bytes) -> Any:
    return parse_completion(body, lambda model, prompt: "")


TURNS = [{"role": "user", "content": "hi"}]
ROUTES: dict[str, tuple[Callable[[bytes], Any], dict[str, Any]]] = {
    "/v1/chat/completions": (parse_chat, {"model": "tale", "messages": TURNS, "max_tokens": 5}),
    "/v1/completions": (_completion, {"model": "tale", "prompt": "hi", "max_tokens": 5}),
    "/v1/responses": (parse_response, {"model": "tale", "input": "hi", "max_output_tokens": 5}),
    "/v1/messages": (parse_message, {"model": "tale", "messages": TURNS, "max_tokens": 5}),
    "/v1/embeddings": (parse_embedding, {"model": "vectors", "input": "hi"}),
}
routes = pytest.mark.parametrize("route", ROUTES)


def parsed(route: str, provider: Any) -> Any:
    parse, body = ROUTES[route]
    return parse(msgspec.json.encode({**body, "provider": provider}))


@routes
def test_each_word_is_read(route: str) -> None:
    request = parsed(
        route,
        {
            "only": ["pool:a", "b", "provider:c"],
            "order": ["b", "a"],
            "ignore": ["provider:d"],
            "sort": {"by": "price"},
            "max_price": {"prompt": 1, "completion": "2.50"},
            "preferred_max_latency": {"p95_ttft_ms": 800},
            "allow_fallbacks": False,
            "quantizations": ["fp8"],
            "data_collection": "deny",
        },
    )
    assert request.preferences == Preferences(
        only=frozenset({Target(POOL, "a"), Target(POOL, "b"), Target(PROVIDER, "c")}),
        order=(Target(POOL, "b"), Target(POOL, "a")),
        ignore=frozenset({Target(PROVIDER, "d")}),
        sort=Sort.PRICE,
        preferred_max_latency=LatencyPreference(((0.95, 0.8),)),
        allow_fallbacks=False,
        quantizations=frozenset({"fp8"}),
        data_collection_allowed=False,
    )
    assert request.price_max == PriceBound(1_000_000_000, 2_500_000_000)


@routes
@pytest.mark.parametrize("nothing", [None, {}, {"only": None}])
def test_what_says_nothing_changes_nothing(route: str, nothing: Any) -> None:
    request = parsed(route, nothing)
    assert request.preferences is None and request.price_max == PriceBound()


@routes
def test_a_quantile_that_is_null_is_not_preferred(route: str) -> None:
    latency = {"p50_ttft_ms": None, "p95_ttft_ms": 800}
    request = parsed(route, {"preferred_max_latency": latency})
    assert request.preferences is not None
    assert request.preferences.preferred_max_latency == LatencyPreference(((0.95, 0.8),))
    without = parsed(route, {"preferred_max_latency": {"p50_ttft_ms": None}})
    assert without.preferences is not None
    assert without.preferences.preferred_max_latency is None


WRONG: list[tuple[Any, str]] = [
    ([], "provider"),
    ({"onyl": ["a"]}, "provider.onyl"),
    ({"only": "a"}, "provider.only"),
    ({"only": []}, "provider.only"),
    ({"order": [1]}, "provider.order"),
    ({"ignore": ["region:eu"]}, "provider.ignore"),
    ({"sort": "speed"}, "provider.sort"),
    ({"sort": {"by": 1}}, "provider.sort"),
    ({"max_price": {"prompt": -1}}, "provider.max_price.prompt"),
    ({"max_price": {"completion": "x"}}, "provider.max_price.completion"),
    ({"max_price": {"image": 1}}, "provider.max_price.image"),
    ({"preferred_max_latency": {"p95_ttft_ms": 0}}, "provider.preferred_max_latency.p95_ttft_ms"),
    ({"allow_fallbacks": "no"}, "provider.allow_fallbacks"),
    ({"quantizations": [8]}, "provider.quantizations"),
    ({"data_collection": "never"}, "provider.data_collection"),
]


@routes
@pytest.mark.parametrize(("provider", "param"), WRONG)
def test_a_wrong_word_is_refused_by_its_name(route: str, provider: Any, param: str) -> None:
    with pytest.raises(ApiError) as raised:
        parsed(route, provider)
    assert (raised.value.status, raised.value.param) == (400, param)
    assert param in raised.value.message


@routes
async def test_a_call_goes_only_where_its_own_words_allow(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, route: str
) -> None:
    body = ROUTES[route][1]
    pools = [pool for pool in POOLS if pool.startswith(body["model"])]
    vector = fake.stream(fake.own_vectors({0: [1.0]}, 3), fake.DONE)
    made = vector if body["model"] == "vectors" else story()
    async with edge(redis_server, redis, tmp_path, behaviour=lambda _: made) as one:
        allowed = {"only": [f"pool:{pools[0]}"], "max_price": {"completion": 1000}}
        answer = await one.post({**body, "provider": allowed}, path=route)
        assert answer.status == 200, answer.body
        assert answer.headers["x-sluice-pool"] == pools[0]
        dear = {"max_price": {"prompt": 0.001}}
        for wrong, status, words in (
            ({"only": ["pool:nowhere"]}, 403, "'provider' leave no pool"),
            ({"ignore": pools}, 403, "'provider' leave no pool"),
            (dear, 400, "provider.max_price"),
            ({"onyl": pools}, 400, "provider.onyl"),
        ):
            answer = await one.post({**body, "provider": wrong}, path=route)
            assert answer.status == status and words in answer.json["error"]["message"]
        assert len(one.upstream.requests) == 1
        await one.settled()
