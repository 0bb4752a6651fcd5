"""What other gateways got wrong about prices, G12 to G16, on a whole gateway."""

from __future__ import annotations

import json
from pathlib import Path
from time import time
from typing import Any

import msgspec
import pytest
from redis.asyncio import Redis

from billing.db.engine import Store
from billing.prices.book import (
    Component,
    Discount,
    PriceRate,
    Prices,
    PriceVersion,
    Unpriced,
    make_book,
    publish,
)
from billing.prices.rating import rate, rate_frozen
from billing.queries import usage_summary
from billing.types import SettledCall, Usage
from billing.verify import verify
from gateway.catalog.bootstrap import ORGANIZATION_ID
from gateway.upstream import fake
from gateway.upstream.chunks import read_chunk
from tests.billing.calls import ADMITTED_US
from tests.billing.conftest import empty_ledger, empty_postgres_ledger, postgres_store, sqlite_store
from tests.billing.invoices.test_invoices import book, call
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, CHAT, Edge, body, edge
from tests.postgres_fixtures import postgres
from tests.redis_server import RedisServer

__all__ = [
    "empty_ledger",
    "empty_postgres_ledger",
    "postgres",
    "postgres_store",
    "sqlite_store",
]

IN, OUT, CACHED = 1_000_000_000, 5_000_000_000, 100_000_000


def priced(component: Component, price: int, **more: Any) -> PriceRate:
    return PriceRate("tale", "default", component, price, **more)


BASE = (priced(Component.INPUT, IN), priced(Component.OUTPUT, OUT))


async def prices_are(one: Edge, *rates: PriceRate, agreement: PriceVersion | None = None) -> None:
    book_ = make_book(
        [PriceVersion("pv_2", 0, None, rates), *([agreement] if agreement else [])], revision=2
    )
    await one.redis.set("sluice:prices", publish(book_, round(time() * 1e6)))
    await one.parts.catalog.refresh()


async def charged(one: Edge) -> SettledCall:
    (settled,) = (await one.settled()).values()
    book_ = one.parts.catalog.prices
    again = rate_frozen(
        book_,
        model=settled.model,
        tier=settled.tier,
        batch=settled.batch,
        usage=settled.usage,
        price_version=settled.price_version,
    )
    assert again.amount_nanousd == settled.amount_nanousd, "rating again gives the same"
    return settled


def plain(prompt: int, cached: int, completion: int) -> bytes:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return json.dumps({"choices": [], "usage": usage}).encode()


def test_g12_cached_tokens_are_not_charged_twice() -> None:
    """An OpenAI-compatible server counts cached tokens inside the prompt."""
    usage = read_chunk(plain(100, 80, 5)).usage
    assert usage == Usage(input=20, cached_input=80, output=5)
    assert usage.total == 105
    at = Prices("v", "m", "default", False, IN, CACHED, OUT)
    assert rate(usage, at).amount_nanousd == 20 * 1000 + 80 * 100 + 5 * 5000
    written = {"cached_tokens": 80, "cache_write_tokens": 15}
    said = {
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "prompt_tokens_details": written,
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    every = read_chunk(json.dumps({"choices": [], "usage": said}).encode()).usage
    assert every == Usage(input=5, cached_input=80, output=2, cache_write=15, reasoning=3)
    assert (every.prompt, every.completion, every.total) == (100, 5, 105)
    assert rate(every, at).amount_nanousd == 20 * 1000 + 80 * 100 + 5 * 5000
    more_cached_than_prompt = read_chunk(plain(100, 900, 5)).usage
    assert more_cached_than_prompt == Usage(cached_input=100, output=5)


def tells(prompt: int, output: int, pause_s: float = 0.0) -> fake.Script:
    frame = fake.own_frame("word", output, prompt=prompt, finish="stop")
    return fake.Script([fake.Pause(pause_s), fake.Send(frame), fake.Send(fake.DONE)])


LONG = [{"role": "user", "content": "x" * 60}]


@pytest.mark.parametrize(("prompt", "times"), [(49, 1), (50, 2)])
async def test_g13_price_of_long_prompts_is_held_and_charged(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, prompt: int, times: int
) -> None:
    longer = (
        priced(Component.INPUT, 2 * IN, prompt_from=50),
        priced(Component.OUTPUT, 2 * OUT, prompt_from=50),
    )
    held: list[int] = []

    def answer(_: fake.Request) -> fake.Script:
        held.extend(call.held_nanousd for call in one.parts.accounts.open.values())
        return tells(prompt, 2)

    async with edge(redis_server, redis, tmp_path, behaviour=answer) as one:
        await prices_are(one, *BASE, *longer)
        assert (await one.post(body(messages=LONG))).status == 200
        settled = await charged(one)
        assert settled.usage == Usage(input=prompt, output=2)
        assert settled.amount_nanousd == times * (prompt * 1000 + 2 * 5000)
        assert held[0] >= 2 * (60 * 1000 + 64 * 5000), "as long as it was counted to be"


async def test_an_organization_is_held_and_charged_by_its_agreement(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    agreement = PriceVersion(
        "own", 0, None, (), org=ORGANIZATION_ID, discounts=(Discount("", 2500),)
    )
    async with edge(redis_server, redis, tmp_path, behaviour=lambda _: tells(60, 2)) as one:
        await prices_are(one, *BASE, agreement=agreement)
        assert (await one.post(body(messages=LONG))).status == 200
        settled = await charged(one)
        assert settled.price_version == "pv_2+own"
        assert settled.amount_nanousd == (60 * 1000 + 2 * 5000) * 3 // 4
        _, model = await ask(one.app, "GET", "/v1/models/tale", b"", API_KEY)
        assert model["pricing"]["default"]["input"] == "0.75"


async def test_gpu_milliseconds_are_charged_up_to_the_bound_that_is_held(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    gpu = priced(Component.GPU_MS, 10**12, units_max=20)
    held: list[int] = []

    def answer(_: fake.Request) -> fake.Script:
        held.extend(call.held_nanousd for call in one.parts.accounts.open.values())
        return tells(60, 2, pause_s=0.1)

    async with edge(redis_server, redis, tmp_path, behaviour=answer) as one:
        await prices_are(one, *BASE, gpu)
        assert (await one.post(body(messages=LONG))).status == 200
        settled = await charged(one)
        assert settled.gpu_ms >= 100
        assert settled.amount_nanousd == 60 * 1000 + 2 * 5000 + 20 * 10**6
        assert settled.amount_nanousd <= held[0]


async def test_a_call_costs_at_least_the_minimum_and_nothing_used_costs_nothing(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    scripts = [fake.Script([fake.Send(b'{"error": {"message": "no"}}')]), tells(60, 2)]
    async with edge(
        redis_server, redis, tmp_path, behaviour=lambda _: scripts.pop() if scripts else tells(1, 1)
    ) as one:
        await prices_are(one, *BASE, priced(Component.MINIMUM, 10**15))
        assert (await one.post(body(messages=LONG))).status == 200
        assert (await charged(one)).amount_nanousd == 10**9


def test_g14_a_line_of_a_batch_has_its_own_price_or_none() -> None:
    rates = (*BASE, *(priced(r.component, r.nanousd_per_mtok // 2, batch=True) for r in BASE))
    usage = Usage(input=10, output=10)
    both = make_book([PriceVersion("v", 0, None, rates)])
    full, half = (both.lookup("tale", "default", batch, 1) for batch in (False, True))
    assert isinstance(full, Prices) and isinstance(half, Prices)
    assert rate(usage, full).amount_nanousd == 2 * rate(usage, half).amount_nanousd
    without = make_book([PriceVersion("v", 0, None, BASE)])
    assert isinstance(without.lookup("tale", "default", True, 1), Unpriced)


@pytest.mark.parametrize(
    "rates",
    [
        (),
        BASE[:1],
        BASE[1:],
        tuple(msgspec.structs.replace(r, tier="priority") for r in BASE),
        tuple(msgspec.structs.replace(r, batch=True) for r in BASE),
    ],
    ids=["no prices", "no output price", "no input price", "another tier", "batch alone"],
)
async def test_g15_what_has_no_price_is_refused_and_never_free(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, rates: tuple[PriceRate, ...]
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        await prices_are(one, *rates)
        response = await one.refused(body(), path=CHAT)
        assert (response.status, response.error_code) == (400, "model_not_priced")


async def test_g15_a_book_that_cannot_be_read_changes_no_price(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path, behaviour=lambda _: tells(60, 2)) as one:
        await one.redis.set("sluice:prices", b'{"versions": [{"rates": "free"}]}')
        await one.parts.catalog.refresh()
        assert (await one.post(body(messages=LONG))).status == 200
        assert (await charged(one)).amount_nanousd == 60 * 1000 + 2 * 5000


@pytest.mark.parametrize("kind", ["sqlite_store", "postgres_store"])
def test_g16_sums_stay_exact_beyond_32_bits_and_beyond_a_double(
    request: pytest.FixtureRequest, kind: str
) -> None:
    store: Store = request.getfixturevalue(kind)
    most = 2**48 + 1
    calls = [call(store, f"req_{n}", ADMITTED_US + 9, input=most, output=most) for n in range(3)]
    book(store, *calls, now_us=ADMITTED_US + 99)
    amount = sum(one.amount_nanousd for one in calls)
    assert float(amount) != amount or amount > 2**54, "no double counts to it one by one"
    (total,) = usage_summary(store, None, 0, 2 * ADMITTED_US)
    assert (total.input, total.output, total.amount_nanousd) == (3 * most, 3 * most, amount)
    assert verify(store, now_us=ADMITTED_US + 99).ok
