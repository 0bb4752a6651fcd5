"""Exchange rates by the admin API, and what documents show by them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.gateway.admin.test_parties import OF_ORGANIZATION, PROFILE, RULE, SELLER, asked, one
from tests.gateway.api.asgi import ask
from tests.gateway.commands.conftest import sluice
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import API_KEY, ORGANIZATION_ID, Edge

__all__ = ["one", "sluice"]

BODY = {"units_per_usd": "0.925", "source": "ECB"}
ONE_OFF = {
    **{"organization": ORGANIZATION_ID, "kind": "one_off"},
    "lines": [{"description": "Onboarding", "quantity": 1, "unit_price_usd": "100.00"}],
}


def day(one: Edge, days_ago: int = 0) -> str:
    today = datetime.fromtimestamp(one.parts.outside.clock(), UTC).date()
    return (today - timedelta(days=days_ago)).isoformat()


async def test_rates_are_put_and_listed_in_pages(one: Edge) -> None:
    path = "/exchange-rates/EUR/2026-11-27"
    status, rate = await asked(one, "PUT", path, BODY)
    assert (status, rate["currency"], rate["date"]) == (200, "EUR", "2026-11-27")
    assert (rate["units_per_usd"], rate["source"], rate["set_by"]) == ("0.925", "ECB", "admin")
    assert await asked(one, "PUT", path, BODY) == (200, rate)
    _, newer = await asked(one, "PUT", "/exchange-rates/CHF/2026-11-28", BODY)
    _, page = await asked(one, "GET", "/exchange-rates?limit=1")
    assert page["data"] == [newer] and page["has_more"]
    _, page = await asked(one, "GET", f"/exchange-rates?limit=1&after={page['after']}")
    assert page["data"] == [rate] and not page["has_more"]
    assert (await asked(one, "GET", "/exchange-rates?currency=EUR"))[1]["data"] == [rate]
    _, changed = await asked(one, "PUT", path, BODY | {"source": "BdB"})
    assert changed["source"] == "BdB"


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("EUR/2026-11-31", BODY, "date"),
        ("EUR/27.11.2026", BODY, "date"),
        ("eur/2026-11-27", BODY, "currency"),
        ("USD/2026-11-27", BODY, "currency"),
        ("JPY/2026-11-27", BODY, "currency"),
        ("EUR/2026-11-27", BODY | {"units_per_usd": "0"}, "units_per_usd"),
        ("EUR/2026-11-27", BODY | {"units_per_usd": "-0.9"}, "units_per_usd"),
        ("EUR/2026-11-27", BODY | {"units_per_usd": 0.9}, "units_per_usd"),
        ("EUR/2026-11-27", BODY | {"units_per_usd": "0.1234567891"}, "units_per_usd"),
        ("EUR/2026-11-27", BODY | {"source": " "}, "source"),
    ],
)
async def test_rate_that_cannot_be_is_refused_with_its_field(
    one: Edge, path: str, body: Any, param: str
) -> None:
    status, answer = await asked(one, "PUT", f"/exchange-rates/{path}", body)
    assert (status, answer["error"]["param"]) == (400, param), answer


async def test_issued_documents_keep_their_rate(one: Edge, sluice: Sluice) -> None:
    for path, body in (
        ("/sellers/main", SELLER | {"tax_currency": "EUR"}),
        (OF_ORGANIZATION, PROFILE),
        ("/tax-rules/de", RULE | {"rate": "19"}),
    ):
        assert (await asked(one, "PUT", path, body))[0] == 200
    status, draft = await asked(one, "POST", "/invoices", ONE_OFF)
    assert status == 200 and draft["converted"] is None
    assert draft["parked_because"][0].startswith("no_exchange_rate")
    path = f"/invoices/{draft['id']}"
    status, refused = await asked(one, "POST", f"{path}/issue")
    assert (status, refused["error"]["code"]) == (409, "invoice_status")
    await asked(one, "PUT", f"/exchange-rates/EUR/{day(one, 3)}", BODY)
    _, page = await asked(one, "GET", f"/invoices?organization={ORGANIZATION_ID}")
    assert page["data"][0]["converted"]["due"] == "110.08"
    assert (await file(one, draft["id"]))["draft"]
    status, issued = await asked(one, "POST", f"{path}/issue")
    assert status == 200 and issued["converted"] == {
        **{"currency": "EUR", "units_per_usd": "0.925", "day": day(one, 3), "source": "ECB"},
        **{"tax": "17.58", "total": "110.08", "due": "110.08"},
    }
    await asked(one, "PUT", f"/exchange-rates/EUR/{day(one)}", BODY | {"units_per_usd": "0.5"})
    said = (await file(one, draft["id"]))["converted"]
    assert (said["rate"], said["tax"], said["due"]) == ("0.925", "17.58", "110.08")
    credit = {"external_id": "t-1", "reason": "outage", "amount_usd": "11.90"}
    _, note = await asked(one, "POST", f"{path}/credit", credit)
    said = (await file(one, note["id"]))["converted"]
    assert (said["rate"], said["tax"], said["total"]) == ("0.925", "1.76", "11.01")
    _, own = await ask(one.app, "GET", "/v1/organization/invoices", b"", API_KEY)
    assert own["data"][0]["converted"]["due"] == "99.07"
    euros = {"amount": "99.07", "currency": "EUR", "external_id": "wire-1"}
    for wrong, param in (
        (euros | {"amount_usd": "107.10"}, "amount_usd"),
        ({"external_id": "wire-1"}, "amount_usd"),
        (euros | {"amount": "99.075"}, "amount"),
        (euros | {"currency": "CHF"}, "currency"),
    ):
        status, refused = await asked(one, "POST", f"{path}/pay", wrong)
        assert (status, refused["error"]["param"]) == (400, param)
    status, paid = await asked(one, "POST", f"{path}/pay", euros)
    assert (status, paid["status"], paid["due_usd"]) == (200, "paid", "0.00")
    assert paid["converted"]["due"] == "0.00"
    assert await asked(one, "POST", f"{path}/pay", euros) == (200, paid)
    words = "--amount", "99.07", "--currency", "EUR", "--external-id", "wire-1"
    assert "paid" in await sluice("invoice", "pay", issued["number"], *words)
    status, _ = await asked(one, "POST", f"{path}/pay", euros | {"amount": "99.08"})
    assert status == 409
    (payment,) = (await asked(one, "GET", "/payments"))[1]["data"]
    assert (payment["currency"], payment["amount_usd"]) == ("USD", "107.10")
    assert payment["tendered"] == {"currency": "EUR", "amount": "99.07"}


async def file(one: Edge, document: str) -> Any:
    status, said = await ask(one.app, "GET", f"/admin/v1/invoices/{document}.json", b"", "admin")
    assert status == 200
    return said


async def test_top_up_without_a_rate_is_refused(one: Edge) -> None:
    await asked(one, "PUT", "/sellers/main", SELLER)
    await asked(one, "PUT", OF_ORGANIZATION, PROFILE | {"currency": "CHF"})
    path = f"/organizations/{ORGANIZATION_ID}/top-ups"
    body = {"amount_usd": "25.00", "external_id": "wire-1"}
    status, answer = await asked(one, "POST", path, body)
    assert (status, answer["error"]["code"]) == (409, "no_exchange_rate")
    await asked(one, "PUT", f"/exchange-rates/CHF/{day(one)}", BODY)
    assert (await asked(one, "POST", path, body))[0] == 201
