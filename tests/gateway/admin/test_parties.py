"""Who bills whom, by the admin API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import ORGANIZATION_ID, Edge, edge
from tests.gateway.parties import ADDRESS, BUYER, SELLER
from tests.redis_server import RedisServer

PROFILE = BUYER | {"legal_name": "B" * 500, "kind": "consumer"}
RULE = {"category": "S", "rate": "8.875", "from": "2026-01-01T00:00:00Z", "buyer_country": "DE"}
OF_ORGANIZATION = f"/organizations/{ORGANIZATION_ID}/billing-profile"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def asked(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    raw = b"" if sent is None else json.dumps(sent).encode()
    status, answer = await ask(one.app, method, f"/admin/v1{path}", raw, "admin")
    if status == 200:
        assert_described(one.app, method, f"/admin/v1{path}", status, answer)
    return status, answer


async def test_parties_and_rules_are_answered_as_they_were_put(one: Edge) -> None:
    status, seller = await asked(one, "PUT", "/sellers/main", SELLER)
    assert status == 200 and seller.items() >= (SELLER | {"address": seller["address"]}).items()
    assert seller["address"] == ADDRESS | {"region": ""}
    assert (await asked(one, "GET", "/sellers/main"))[1] == seller
    assert (await asked(one, "GET", "/sellers"))[1]["data"] == [seller]
    status, profile = await asked(one, "PUT", OF_ORGANIZATION, PROFILE)
    assert (status, profile["kind"], profile["payment_terms_days"]) == (200, "consumer", 30)
    assert (await asked(one, "GET", OF_ORGANIZATION))[1] == profile
    until = "2027-01-01T00:00:00+00:00"
    certified = PROFILE | {"exemption": "NY-1", "exemption_until": until}
    status, profile = await asked(one, "PUT", OF_ORGANIZATION, certified)
    assert (status, profile["exemption_until"]) == (200, until)
    exempt = {"category": "E", "needs_exemption": True, "note": "a", "from": RULE["from"]}
    status, rule = await asked(one, "PUT", "/tax-rules/exempt", exempt)
    assert (status, rule["needs_exemption"], rule["level"]) == (200, True, "")
    assert await asked(one, "DELETE", "/tax-rules/exempt") == (200, rule)
    status, rule = await asked(one, "PUT", "/tax-rules/ny", RULE)
    assert (status, rule["rate"], rule["to"]) == (200, "8.875", None)
    assert rule["from"] == "2026-01-01T00:00:00+00:00"
    assert (await asked(one, "GET", "/tax-rules"))[1]["data"] == [rule]
    assert await asked(one, "DELETE", "/tax-rules/ny") == (200, rule)
    assert (await asked(one, "DELETE", "/tax-rules/ny"))[0] == 404


async def test_rules_of_one_jurisdiction_do_not_overlap(one: Edge) -> None:
    city = RULE | {"jurisdiction": "New York City", "buyer_postal_codes": ["100", "112"]}
    status, rule = await asked(one, "PUT", "/tax-rules/nyc", city)
    assert (status, rule["jurisdiction"]) == (200, "New York City")
    assert rule["buyer_postal_codes"] == ["100", "112"]
    status, answer = await asked(one, "PUT", "/tax-rules/b", city | {"buyer_postal_codes": ["1"]})
    assert (status, answer["error"]["param"]) == (400, "jurisdiction")
    for other in ({"buyer_postal_codes": ["113"]}, {"jurisdiction": "MTA"}):
        assert (await asked(one, "PUT", "/tax-rules/b", city | other))[0] == 200


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/sellers/main", SELLER | {"vat_id": "DE1"}, "vat_id"),
        ("/sellers/main", SELLER | {"iban": "DE1"}, "iban"),
        ("/sellers/main", SELLER | {"series": "a b"}, "series"),
        ("/sellers/main", SELLER | {"legal_name": "x" * 501}, "legal_name"),
        ("/sellers/main", SELLER | {"legal_name": "a\nb"}, "legal_name"),
        (OF_ORGANIZATION, PROFILE | {"seller": "nobody"}, "seller"),
        (OF_ORGANIZATION, PROFILE | {"payment_terms_days": -1}, "payment_terms_days"),
        ("/tax-rules/a", RULE | {"rate": "19.00001"}, "rate"),
        ("/tax-rules/a", RULE | {"rate": "0"}, "rate"),
        ("/tax-rules/a", RULE | {"rate": 19}, "rate"),
        ("/tax-rules/a", RULE | {"rate": 8.875}, "rate"),
        ("/tax-rules/a", RULE | {"rate": True}, "rate"),
        ("/tax-rules/a", RULE | {"level": "county"}, "level"),
        ("/tax-rules/a", RULE | {"needs_exemption": True}, "needs_exemption"),
        (OF_ORGANIZATION, PROFILE | {"exemption_until": "2027-01-01"}, "exemption_until"),
        ("/tax-rules/a", RULE | {"category": "AE", "rate": "0"}, "reason_code"),
        ("/tax-rules/a", RULE | {"buyer_postal_codes": ["\n"]}, "buyer_postal_codes.0"),
        ("/tax-rules/a", RULE | {"to": "2025-01-01T00:00:00Z"}, "to"),
    ],
)
async def test_what_cannot_be_is_refused_with_its_field(
    one: Edge, path: str, body: Any, param: str
) -> None:
    status, answer = await asked(one, "PUT", path, body)
    assert (status, answer["error"]["param"]) == (400, param), answer


async def test_profile_of_nobody_is_not_there(one: Edge) -> None:
    for path in ("/organizations/nobody/billing-profile", "/sellers/nobody"):
        assert (await asked(one, "GET", path))[0] == 404
    await asked(one, "PUT", "/sellers/main", SELLER)
    assert (await asked(one, "PUT", "/organizations/nobody/billing-profile", PROFILE))[0] == 404
