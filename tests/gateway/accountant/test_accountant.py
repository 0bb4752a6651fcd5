"""An accountant who imports nothing of the product makes the invoices again, to the cent.

From `/v1/generations` of each call, and from prices, terms, credit and tax rules as the API tells
them.
"""

from __future__ import annotations

import ast
import dataclasses
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Record
from billing.periods import period
from billing.prices.book import PriceBook
from billing.prices.rating import rate_frozen
from billing.prices.versions import load_book
from billing.types import RareUsage, SettledCall, UsageSource, encode
from billing.verify import verify_all
from tests.billing.calls import opened_call, settled_call
from tests.gateway.accountant.invoices import reckon
from tests.gateway.accountant.office import Office, assert_same, gathered, issue, lines_of
from tests.gateway.accountant.prices import Json, nano
from tests.gateway.edge import ORGANIZATION_ID, edge
from tests.gateway.parties import BUYER, SELLER
from tests.redis_server import RedisServer

SEPTEMBER, OCTOBER, NOVEMBER = (period(f"2026-{month:02d}") for month in (9, 10, 11))
HOUR_US = 3_600_000_000
OF_PRODUCT = {"billing", "gateway", "routing", "workers", "providers"}
OCTOBER_CALLS, LATE_CALLS, NOVEMBER_CALLS = 240, 30, 60
TIERS = ("default", "priority", "flex")
RULES: dict[str, Json] = {
    "any": {"category": "O", "note": "not taxed", "from": "2026-01-01T00:00:00Z"},
    "de": {"category": "S", "rate": "19", "buyer_country": "DE", "from": "2026-01-01T00:00:00Z"},
    "later": {
        "category": "S",
        "rate": "8.875",
        "buyer_country": "DE",
        "from": "2026-11-01T00:00:00Z",
    },
}
GRANTS = (
    {"id": "gift", "category": "promotional", "amount_usd": "0.75", "priority": 1},
    {"id": "paid", "category": "paid", "amount_usd": "1.10"},
)
ALL = {"first_month": "2026-10"}
TERMS: tuple[Json, ...] = (
    ALL | {"id": "least", "kind": "minimum", "amount_usd": "115.00", "last_month": "2026-10"},
    ALL | {"id": "off", "kind": "percent", "percent": "7.25"},
    ALL | {"id": "usd", "kind": "amount", "amount_usd": "0.3333", "last_month": "2026-11"},
    ALL | {"id": "free", "kind": "allowance", "units": 31_415, "model": "small"},
    ALL | {"id": "free-output", "kind": "allowance", "units": 999, "component": "output"},
    {
        **{"id": "steps", "kind": "tiers", "mode": "graduated", "first_month": "2026-10"},
        **{"model": "small", "component": "input", "last_month": None},
        "tiers": [
            {"up_to": 20_000, "price_usd_per_million": "10.01"},
            {"up_to": 90_000, "price_usd_per_million": "7.77"},
            {"up_to": None, "price_usd_per_million": "3.000000001"},
        ],
    },
    {
        **{"id": "volume", "kind": "tiers", "mode": "volume", "first_month": "2026-11"},
        **{"model": "large", "component": "output", "service_tier": "default"},
        "tiers": [
            {"up_to": 5_000, "price_usd_per_million": "60"},
            {"up_to": None, "price_usd_per_million": "41.5"},
        ],
    },
)


def rates_of(cents: int) -> Iterator[Json]:
    """Of three models: one by the length of its prompt, one with fees, one by units."""
    for tier in TIERS:
        for is_batch in (False, True):
            off = cents if not is_batch else cents / 2
            key = {"tier": tier, "batch": is_batch}
            for component, times in (("input", 7), ("cached_input", 1), ("output", 31)):
                small = key | {"model": "small", "component": component}
                yield small | {"usd_per_mtok": f"{off * times / 7:.9f}"}
                yield small | {
                    **{"usd_per_mtok": f"{off * times / 3:.9f}", "prompt_from_tokens": 1_500}
                }
            large = key | {"model": "large"}
            of_large = {
                "input": 13,
                "output": 53,
                "reasoning": 67,
                "request": 900,
                "minimum": 4_000,
            }
            for component, times in of_large.items():
                yield large | {"component": component, "usd_per_mtok": f"{off * times / 11:.9f}"}
            gpu = {"component": "gpu_ms", "usd_per_mtok": f"{off / 9:.9f}", "units_max": 700}
            yield large | gpu
            for component, price in (("input", "0.5"), ("output", "0"), ("search_unit", "2000")):
                yield key | {"model": "ranker", "component": component, "usd_per_mtok": price}


AGREEMENT = {
    "organization": ORGANIZATION_ID,
    "discounts": [{"model": "large", "basis_points": 1_234}, {"basis_points": 333}],
    "rates": [
        {"model": "small", "tier": "flex", "component": component, "usd_per_mtok": price}
        for component, price in (("input", "1.234567891"), ("output", "6.5"))
    ],
}


@pytest.fixture
async def office(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Office]:
    async with edge(redis_server, redis, tmp_path) as one:
        yield Office(one)


def test_accountant_imports_nothing_of_the_product() -> None:
    for name in ("invoices", "prices"):
        path = Path(__file__).with_name(f"{name}.py")
        imported = {each.split(".")[0] for each in _imports(path)}
        assert imported <= set(sys.stdlib_module_names) | {"tests"}, path
        assert not imported & OF_PRODUCT
        others = {each for each in _imports(path) if each.startswith("tests")}
        assert others <= {"tests.gateway.accountant.prices"}, path


def _imports(path: Path) -> list[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
    return names + [str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)]


async def test_invoices_are_made_again_from_what_the_api_tells(office: Office) -> None:
    random, store = Random(20), office.one.parts.ledger
    await agree(office)
    versions = {each["note"]: each["id"] for each in await office.rows("/admin/v1/prices")}
    book = load_book(store)
    calls = [*made(random, book, versions, "oct", OCTOBER_CALLS, OCTOBER.start_us)]
    worse = [estimated(random, book, call) for call in calls[::9]]
    better, others = calls[::9], [call for place, call in enumerate(calls) if place % 9]
    at_once, too_late = better[::2], better[1::2]
    booked(store, [*worse, *others], OCTOBER.end_us - 9)
    booked(store, at_once, OCTOBER.end_us + 60_000_000)
    issued = {"2026-10": await issue(office, "2026-10", OCTOBER.end_us + HOUR_US)}
    late = [*made(random, book, versions, "late", LATE_CALLS, OCTOBER.start_us)]
    booked(store, [*late, *too_late], OCTOBER.end_us + 2 * HOUR_US)
    booked(
        *(store, [*made(random, book, versions, "nov", NOVEMBER_CALLS, NOVEMBER.start_us)]),
        NOVEMBER.end_us,
    )
    issued["2026-11"] = await issue(office, "2026-11", NOVEMBER.end_us + HOUR_US)
    report = await verify_all(store, now_us=NOVEMBER.end_us + 2 * HOUR_US)
    assert report.ok, report.as_text()

    documents = {month: lines_of(invoice) for month, invoice in issued.items()}
    evidence = await gathered(office, issued)
    assert len(evidence.calls) == OCTOBER_CALLS + LATE_CALLS + NOVEMBER_CALLS
    reckoned = reckon(evidence)
    for month, invoice in issued.items():
        assert_same(invoice, reckoned[month])
    kinds = {line.kind for lines in documents.values() for line in lines}
    assert kinds == {
        *("usage", "adjustment", "tiers", "allowance", "discount", "minimum", "credit", "rounding")
    }
    with pytest.raises(AssertionError):
        reckon(dataclasses.replace(evidence, prices=dearer(evidence.prices)))
    late_tax, tax = sorted(issued["2026-11"]["taxes"], key=lambda each: str(each["rate"]))
    assert late_tax["base_cents"] and tax["base_cents"], "late usage keeps the rate of its month"


async def agree(office: Office) -> None:
    """Prices of two springs, an agreement, terms, credit, and who bills whom under which tax."""
    office.at(SEPTEMBER.start_us + HOUR_US)
    await office.admin("POST", "prices", {"rates": [*rates_of(311)], "note": "first"})
    await office.admin("POST", "prices", AGREEMENT | {"note": "agreed"})
    changed = {"effective_from_s": OCTOBER.start_us / 1e6 + 15 * 86_400}
    await office.admin("POST", "prices", {"rates": [*rates_of(404)], "note": "second"} | changed)
    await office.admin("PUT", "sellers/main", SELLER)
    await office.admin("PUT", f"organizations/{ORGANIZATION_ID}/billing-profile", BUYER)
    for name, rule in RULES.items():
        await office.admin("PUT", f"tax-rules/{name}", rule)
    terms = {"terms": list(TERMS)}
    await office.admin("PUT", f"organizations/{ORGANIZATION_ID}/terms", terms)
    for grant in GRANTS:
        await office.admin("POST", "credits", grant | {"organization": ORGANIZATION_ID})


def made(
    random: Random,
    book: PriceBook,
    versions: Mapping[str, str],
    name: str,
    count: int,
    from_us: int,
) -> Iterator[SettledCall]:
    """Calls of a month, at the prices of their admission."""
    for place in range(count):
        at_us = from_us + random.randrange(29 * 24) * HOUR_US + random.randrange(HOUR_US)
        general = "first" if at_us < OCTOBER.start_us + 15 * 24 * HOUR_US else "second"
        version = f"{versions[general]}+{versions['agreed']}"
        opened = opened_call(f"req_{name}_{place}", org=ORGANIZATION_ID, admitted_us=at_us)
        model = random.choice(("small", "small", "large", "ranker"))
        call = settled_call(
            opened,
            model=model,
            project=random.choice(("proj_a", "proj_b")),
            tier=random.choice(TIERS),
            batch=random.random() < 0.3,
            price_version=version,
            ended_us=at_us + random.randrange(90_000_000),
            **used(random, model),
        )
        yield rated(book, call)


def used(random: Random, model: str) -> dict[str, Any]:
    """Some calls use nothing at all."""
    if random.random() < 0.04:
        return {"input": 0, "cached_input": 0, "output": 0}
    counts = {
        "input": random.randrange(2_000),
        "cached_input": random.choice((0, 0, random.randrange(900))),
        "cache_write": random.choice((0, 0, 0, random.randrange(90))),
        "output": random.randrange(1, 1_000),
        "reasoning": random.choice((0, random.randrange(300))),
        "gpu_ms": random.randrange(1_200),
    }
    if model == "ranker":
        rare = RareUsage(units=random.randrange(1, 4), unit="search_unit")
        return counts | {"output": 0, "reasoning": 0, "rare": rare}
    return counts


def estimated(random: Random, book: PriceBook, call: SettledCall) -> SettledCall:
    """What was taken of the call before anybody knew better; some ended in another month."""
    output = random.randrange(call.output + 1)
    at_us = call.ended_us if random.random() < 0.5 else call.admitted_us
    source = UsageSource.ESTIMATED
    return rated(book, replace(call, source=source, output=output, reasoning=0, ended_us=at_us))


def rated(book: PriceBook, call: SettledCall) -> SettledCall:
    charge = rate_frozen(
        book,
        model=call.model,
        tier=call.tier,
        batch=call.batch,
        usage=call.usage,
        price_version=call.price_version,
    )
    return replace(call, amount_nanousd=charge.amount_nanousd)


def booked(store: Store, calls: Sequence[SettledCall], now_us: int) -> None:
    """A few at a time, as the writer does."""
    prices = load_book(store)
    for start in range(0, len(calls), 16):
        records = [
            Record(0, f"{now_us}-{start + place}", "settled", call.rid, encode(call))
            for place, call in enumerate(calls[start : start + 16])
        ]
        with store.write() as conn:
            done = booking.book(conn, booking.read(records, prices, now_us + start))
        assert not done.failures and not done.conflicts and not done.repeated


def dearer(prices: Sequence[Json]) -> list[Json]:
    """By a tenth of a cent for a million units of one component."""
    first, *others = prices
    rate = first["rates"][0]
    more = f"{(nano(rate['usd_per_mtok']) + 1_000_000) / 1e9:.9f}"
    return [first | {"rates": [rate | {"usd_per_mtok": more}, *first["rates"][1:]]}, *others]
