"""Calls as customers post them: the invoice of a buyer in the United States is what an accountant
reckons from the API, to the cent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.periods import period_at
from billing.prices.versions import publish_prices
from billing.queries import call_by_rid
from billing.verify import verify_all
from gateway.upstream import fake
from tests.billing.ledger_parts import make_writer
from tests.gateway.accountant.invoices import reckon
from tests.gateway.accountant.office import Office, assert_same, gathered, issue
from tests.gateway.accountant.prices import Json
from tests.gateway.edge import (
    EMBEDDINGS,
    ORGANIZATION_ID,
    SETTLED_WITHIN_S,
    Response,
    body,
    edge,
    story,
)
from tests.redis_server import RedisServer

CALLS = 20
HOUR_US = 3_600_000_000
ADDRESS = {"lines": ["1 Main Street"], "city": "Denver", "postal_code": "80202-1234"}
ADDRESS |= {"country": "US", "region": "CO"}
SELLER = {"legal_name": "Sluice Inc.", "address": ADDRESS, "series": "SLU"}
PROFILE = {"legal_name": "Buyer Inc.", "address": ADDRESS, "seller": "main", "kind": "business"}
IN_COLORADO = {"category": "S", "buyer_country": "US", "buyer_region": "CO"}
RULES: dict[str, Json] = {
    "state": {"rate": "2.9", "jurisdiction": "Colorado"},
    "county": {"rate": "1.3575", "jurisdiction": "Denver County", "buyer_postal_codes": ["802"]},
    "city": {"rate": "4.815", "jurisdiction": "Denver", "buyer_city": "DENVER"},
    "elsewhere": {"rate": "3.75", "jurisdiction": "Aurora", "buyer_city": "Aurora"},
}
TERMS: tuple[Json, ...] = (
    {"id": "off", "kind": "percent", "percent": "7.25"},
    {"id": "least", "kind": "minimum", "amount_usd": "47.1117"},
)
TIERS = ("default", "priority", "flex")


def rates() -> list[Json]:
    """Some cents a token, none of them whole."""
    of_tokens = {"input": 7, "cached_input": 2, "output": 31}
    return [
        {
            **{"model": model, "tier": tier, "batch": False, "component": component},
            "usd_per_mtok": f"{(place + 1) * price * 1000 / 7:.9f}",
        }
        for model in ("tale", "vectors")
        for place, tier in enumerate(TIERS)
        for component, price in of_tokens.items()
    ]


@pytest.fixture
async def office(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Office]:
    random = Random(19)
    async with edge(
        *(redis_server, redis, tmp_path),
        behaviour=lambda request: answer(request, frames=random.randrange(2, 9)),
    ) as one:
        one.watch.stop()
        yield Office(one)


def answer(request: fake.Request, frames: int) -> fake.Script:
    if request.path == EMBEDDINGS:
        return fake.stream(fake.own_vectors({0: [0.5, 1.0]}, 5), fake.DONE)
    return story(frames=frames)


async def test_posted_calls_of_a_buyer_in_three_jurisdictions_are_reckoned_again(
    office: Office, redis: Redis
) -> None:
    month = period_at(round(office.one.watch() * 1e6))
    await agree(office, month.name)
    answered = await post(office)
    await booked(office, redis, answered)

    invoice = await issue(office, month.name, month.end_us + HOUR_US)
    report = await verify_all(office.one.parts.ledger, now_us=month.end_us + 2 * HOUR_US)
    assert report.ok, report.as_text()
    evidence = await gathered(office, {month.name: invoice})
    assert {call["id"] for call in evidence.calls} == answered
    assert_same(invoice, reckon(evidence)[month.name])

    assert {line["kind"] for line in invoice["lines"]} == {
        *("usage", "discount", "minimum", "rounding")
    }
    taxes = {tax["jurisdiction"]: tax for tax in invoice["taxes"]}
    assert set(taxes) == {"Colorado", "Denver County", "Denver"}
    (base_cents,) = {tax["base_cents"] for tax in invoice["taxes"]}
    assert base_cents == 4711
    of_each = {name: tax["tax_cents"] for name, tax in taxes.items()}
    assert of_each == {"Colorado": 137, "Denver County": 64, "Denver": 227}
    assert invoice["total_cents"] == 4711 + 137 + 64 + 227


async def agree(office: Office, month: str) -> None:
    own = f"organizations/{ORGANIZATION_ID}"
    one = office.one
    await office.admin("POST", "prices", {"rates": rates(), "note": "posted"})
    await publish_prices(one.redis, one.parts.ledger, now_us=round(one.watch() * 1e6))
    await one.parts.catalog.refresh()
    await office.admin("PUT", "sellers/main", SELLER)
    await office.admin("PUT", f"{own}/billing-profile", PROFILE)
    for name, rule in RULES.items():
        from_ = {"from": "2026-01-01T00:00:00Z"}
        await office.admin("PUT", f"tax-rules/{name}", IN_COLORADO | rule | from_)
    terms = [term | {"first_month": month} for term in TERMS]
    await office.admin("PUT", f"{own}/terms", {"terms": terms})


async def post(office: Office) -> set[str]:
    """Streams and whole answers of each tier, vectors, one that is asked for twice, one whose
    client leaves, and one that is refused: the ids of those that are charged."""
    one = office.one
    ids: set[str] = set()
    for place in range(CALLS - 3):
        wanted: dict[str, Any] = body(stream=bool(place % 2), service_tier=TIERS[place % 3])
        if not wanted["stream"]:
            del wanted["stream_options"]
        ids.add(charged(await one.post(wanted)))
    vectors = {"model": "vectors", "input": "a word and another"}
    ids.add(charged(await one.post(vectors, path=EMBEDDINGS)))
    again = {"idempotency-key": "once"}
    ids |= {charged(await one.post(body(), headers=again)) for _ in range(2)}
    ids.add(charged(await one.post(body(), leave=after_a_word)))
    refused = await one.post(body(model="nobody"))
    assert refused.status == 404
    assert len(ids) == CALLS
    await one.settled()
    return ids


def charged(response: Response) -> str:
    assert response.status == 200, response.body
    return response.headers["x-request-id"]


async def after_a_word(response: Response) -> None:
    while b"word1" not in response.body:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


async def booked(office: Office, redis: Redis, ids: set[str]) -> None:
    store = office.one.parts.ledger
    writer = make_writer(redis, store)
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while any(call_by_rid(store, each) is None for each in ids):
            await writer.turn()
