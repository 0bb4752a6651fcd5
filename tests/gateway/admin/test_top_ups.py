"""Top-ups by the admin API, by a tenant's key and by `sluice credits`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from billing.parties.store import put_profile, put_seller
from gateway.catalog.bootstrap import ORGANIZATION_ID
from tests.billing.payments.test_stripe_event import event, signed
from tests.billing.taxes.test_tax_rule import BUYER, SELLER
from tests.gateway.admin.test_payments import asked, number, one, sluice
from tests.gateway.api.asgi import answer, ask
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import API_KEY, Edge
from tests.gateway.public.test_payments import seller, told

__all__ = ["number", "one", "seller", "sluice"]
PATH = f"/organizations/{ORGANIZATION_ID}/top-ups"
BODY = {"amount_usd": "25.00", "external_id": "wire-1"}


async def available(one: Edge) -> Any:
    _, credits = await ask(one.app, "GET", "/v1/credits", b"", API_KEY)
    return credits["data"]["total_credits"]


async def test_top_up_counts_at_once_and_has_a_receipt(one: Edge) -> None:
    before = await available(one)
    status, made = await asked(one, "POST", PATH, BODY)
    assert (status, made["receipt"]) == (201, made["receipt"])
    assert made["receipt"].startswith("SLU-RC-") and made["remaining_usd"] == "25.00"
    assert await available(one) == before + 25
    assert await asked(one, "POST", PATH, BODY) == (200, made)
    _, page = await asked(one, "GET", f"/top-ups?organization={ORGANIZATION_ID}")
    _, own = await ask(one.app, "GET", "/v1/organization/receipts", b"", API_KEY)
    assert page["data"] == own["data"] == [made]
    for prefix, key in (("/admin/v1", "admin"), ("/v1/organization", API_KEY)):
        file = f"{prefix}/invoices/{made['id']}"
        headers = {"authorization": f"Bearer {key}"}
        said = (await answer(one.app, "GET", f"{file}.json", headers=headers)).json
        assert (said["kind"], said["number"]) == ("receipt", made["receipt"])
        assert (said["total_usd"], said["tax_usd"], said["due_usd"]) == ("25.00", "0.00", "0.00")
        table = await answer(one.app, "GET", f"{file}.csv", headers=headers)
        assert made["receipt"].encode() in table.body
        xml = await answer(one.app, "GET", f"{file}.xml", headers=headers)
        assert (xml.status, xml.json["error"]["code"]) == (409, "no_e_invoice")
    back = {"external_id": "r-1", "reason": "asked for", "amount_usd": "5.00"}
    status, left = await asked(one, "POST", f"/top-ups/{made['id']}/refund", back)
    assert (status, left["refunded_usd"], left["remaining_usd"]) == (200, "5.00", "20.00")
    assert await available(one) == before + 20


async def test_receipt_of_another_is_not_there(one: Edge) -> None:
    put_seller(one.parts.ledger, SELLER, 1)
    put_profile(one.parts.ledger, replace(BUYER, org="org_other"), 1)
    raw = json.dumps({"slug": "other", "name": "Other"}).encode()
    _, other = await ask(one.app, "POST", "/admin/v1/organizations", raw, "admin")
    put_profile(one.parts.ledger, replace(BUYER, org=other["id"]), 1)
    status, made = await asked(one, "POST", f"/organizations/{other['id']}/top-ups", BODY)
    assert status == 201
    headers = {"authorization": f"Bearer {API_KEY}"}
    path = f"/v1/organization/invoices/{made['id']}.json"
    assert (await answer(one.app, "GET", path, headers=headers)).status == 404
    _, own = await ask(one.app, "GET", "/v1/organization/receipts", b"", API_KEY)
    assert own["data"] == []


@pytest.mark.parametrize(
    ("path", "changed", "expected"),
    [
        (PATH, {"amount_usd": "0"}, (400, "invalid_value", "amount_usd")),
        (PATH, {"amount_usd": "1.005"}, (400, "invalid_value", "amount_usd")),
        (PATH, {"currency": "EUR"}, (400, "invalid_value", "currency")),
        (PATH, {"received_at": "2999-01-01T00:00:00Z"}, (400, "invalid_value", "received_at")),
        (PATH, {"amount_usd": "9000000000.00"}, (400, "invalid_value", "amount_usd")),
        ("/organizations/org_9/top-ups", {}, (404, "not_found", None)),
        (PATH, {}, (409, "billing_profile_missing", None)),
        ("/top-ups/top_0/refund", {}, (404, "not_found", None)),
    ],
)
async def test_what_is_wrong_is_refused_in_words(
    one: Edge, path: str, changed: dict[str, Any], expected: tuple[int, str, str | None]
) -> None:
    put_seller(one.parts.ledger, SELLER, 1)
    sent = {"external_id": "a", "reason": "a"} if "refund" in path else BODY | changed
    status, refused = await asked(one, "POST", path, sent)
    error = refused["error"]
    assert (status, error["param"]) == (expected[0], expected[2]), refused
    assert status == 400 or error["code"] == expected[1]


async def test_signed_payment_that_names_an_organization_tops_it_up(
    one: Edge, number: str, seller: None
) -> None:
    now_s = int(one.parts.outside.clock())
    meta = {"currency": "usd", "metadata": {"organization": ORGANIZATION_ID}}
    body = event("charge.succeeded", id="ch_1", amount=2_500, **meta)
    refused = await told(one, body, signed(body, now_s))
    assert (refused.status, refused.json["error"]["param"]) == (400, "metadata.organization")
    put_profile(one.parts.ledger, replace(BUYER, org=ORGANIZATION_ID), 1)
    before = await available(one)
    first = await told(one, body, signed(body, now_s))
    assert (first.status, first.json["payment"]) == (200, None)
    assert (await told(one, body, signed(body, now_s - 9))).json == first.json
    assert await available(one) == before + 25
    paid = meta | {"metadata": {"invoice": number}}
    other = event("charge.succeeded", id="ch_1", amount=2_500, **paid)
    assert (await told(one, other, signed(other, now_s))).status == 409
    _, page = await asked(one, "GET", "/top-ups")
    assert [each["id"] for each in page["data"]] == [first.json["top_up"]]
    assert page["data"][0]["source"] == "stripe"


async def test_command_tops_up(one: Edge, sluice: Sluice) -> None:
    words = ("credits", "top-up", ORGANIZATION_ID, "25.00", "--external-id", "wire-1")
    made = await sluice.json(*words)
    assert made["amount_usd"] == "25.00"
    assert made["receipt"] in await sluice(*words)
