"""The `provider` object: its words are OpenRouter's, a wrong one is refused by its name, and a call
goes only where its own words allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from gateway.errors import ApiError
from gateway.wire.bodies.chat import parse_chat
from routing.policy.action import LatencyPreference, PriceBound, Sort, Target, TargetKind
from routing.policy.narrow import Preferences
from tests.gateway.edge import edge
from tests.redis_fixtures import redis, redis_server
from tests.redis_server import RedisServer

__all__ = ["redis", "redis_server"]
POOL, PROVIDER = TargetKind.POOL, TargetKind.PROVIDER
CHAT = {"model": "tale", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


def parsed(provider: Any) -> Any:
    return parse_chat(msgspec.json.encode({**CHAT, "provider": provider}))


def test_each_word_is_read() -> None:
    request = parsed(
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
        }
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


@pytest.mark.parametrize("nothing", [None, {}, {"only": None}])
def test_what_says_nothing_changes_nothing(nothing: Any) -> None:
    request = parsed(nothing)
    assert request.preferences is None and request.price_max == PriceBound()


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


@pytest.mark.parametrize(("provider", "param"), WRONG)
def test_a_wrong_word_is_refused_by_its_name(provider: Any, param: str) -> None:
    with pytest.raises(ApiError) as raised:
        parsed(provider)
    assert (raised.value.status, raised.value.param) == (400, param)


async def test_a_call_goes_only_where_its_own_words_allow(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        allowed = {"only": ["pool:tale-reserved"], "max_price": {"completion": 1000}}
        answer = await one.post({**CHAT, "provider": allowed})
        assert answer.status == 200, answer.body
        assert answer.headers["x-sluice-decision"].startswith("tale-reserved")
        for wrong, status, code in (
            ({"only": ["pool:nowhere"]}, 403, "route_not_allowed"),
            ({"ignore": ["tale-reserved", "tale-spot"]}, 403, "route_not_allowed"),
            ({"max_price": {"completion": 0.001}}, 400, "max_price_exceeded"),
        ):
            answer = await one.post({**CHAT, "provider": wrong})
            assert (answer.status, answer.error_code) == (status, code), answer.body
