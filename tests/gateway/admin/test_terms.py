"""Terms of an organization, by the admin API."""

from __future__ import annotations

from typing import Any

import pytest

from billing.invoices.months import run_invoices
from billing.prices.versions import put_into_force
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
)
from tests.gateway.admin.test_documents import RATES
from tests.gateway.admin.test_parties import asked, one  # noqa: F401 - a fixture
from tests.gateway.edge import ORGANIZATION_ID, Edge

PATH = f"/organizations/{ORGANIZATION_ID}/terms"
PERCENT = {"id": "off", "kind": "percent", "percent": "12.5", "first_month": "2026-10"}
AMOUNT = {"id": "usd", "kind": "amount", "amount_usd": "1.50", "first_month": "2026-10"}
MINIMUM = {"id": "min", "kind": "minimum", "amount_usd": "20.00", "first_month": "2026-10"}
FREE = {
    **{"id": "free", "kind": "allowance", "units": 1000, "first_month": "2026-10"},
    **{"model": "tale-large", "component": "output", "last_month": "2027-03"},
}
TIERS: dict[str, Any] = {
    **{"id": "steps", "kind": "tiers", "mode": "volume", "first_month": "2026-10"},
    "tiers": [
        {"up_to": 1000, "price_usd_per_million": "0.90"},
        {"up_to": None, "price_usd_per_million": "0.45"},
    ],
}
ALL = [PERCENT, AMOUNT, MINIMUM, FREE, TIERS]


async def test_terms_are_answered_as_they_were_put(one: Edge) -> None:  # noqa: F811
    assert (await asked(one, "GET", PATH))[1]["terms"] == []
    status, put = await asked(one, "PUT", PATH, {"terms": ALL})
    assert status == 200 and put["organization"] == ORGANIZATION_ID
    for sent, answered in zip(ALL, put["terms"], strict=True):
        assert answered.items() >= ({"name": "", "last_month": None} | sent).items()
    assert (await asked(one, "GET", PATH))[1] == put
    assert (await asked(one, "PUT", PATH, {"terms": []}))[1]["terms"] == []
    assert (await asked(one, "GET", "/organizations/nobody/terms"))[0] == 404
    assert (await asked(one, "PUT", "/organizations/nobody/terms", {"terms": ALL}))[0] == 404


@pytest.mark.parametrize(
    ("term", "param"),
    [
        (PERCENT | {"percent": "100.1"}, "percent"),
        (PERCENT | {"percent": "-1"}, "percent"),
        (PERCENT | {"last_month": "2026-09"}, "last_month"),
        (PERCENT | {"first_month": "2026-13"}, "first_month"),
        (PERCENT | {"amount_usd": "1"}, "amount_usd"),
        (PERCENT | {"kind": "gift"}, None),
        (AMOUNT | {"amount_usd": "-1"}, "amount_usd"),
        (MINIMUM | {"amount_usd": "1e30"}, "amount_usd"),
        (FREE | {"units": 0}, "units"),
        (FREE | {"component": "words"}, "component"),
        (TIERS | {"tiers": TIERS["tiers"][:1]}, "tiers"),
    ],
)
async def test_terms_that_cannot_be_are_refused_with_their_field(
    one: Edge,  # noqa: F811
    term: Any,
    param: str | None,
) -> None:
    status, answer = await asked(one, "PUT", PATH, {"terms": [term]})
    assert status == 400, answer
    assert param is None or param in answer["error"]["param"], answer


async def test_invoice_has_the_terms_and_a_billed_month_keeps_them(one: Edge) -> None:  # noqa: F811
    store = one.parts.ledger
    put_into_force(store, RATES, by="test", now_us=1, version_id="pv_1")
    book(store, call(store, "req_1", IN_OCTOBER_US, org=ORGANIZATION_ID, output=9_000_000))
    caught_up(store, IN_NOVEMBER_US)
    assert (await asked(one, "PUT", PATH, {"terms": [PERCENT]}))[0] == 200
    run_invoices(store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU")
    (invoice,) = (await asked(one, "GET", "/invoices?lines=true"))[1]["data"]
    (line,) = [line for line in invoice["lines"] if line["kind"] == "discount"]
    assert (line["term"], line["description"]) == ("off", "12.5 % discount, 2026-10")
    assert invoice["number"] and line["amount_usd"] == f"-{invoice['discount_usd']}"
    document = (await asked(one, "GET", f"/invoices/{invoice['id']}.json"))[1]
    assert [each["kind"] for each in document["discounts"]] == ["discount"]
    assert document["total_usd"] == invoice["total_usd"]
    status, refused = await asked(one, "PUT", PATH, {"terms": []})
    assert (status, refused["error"]["code"]) == (409, "month_billed")
