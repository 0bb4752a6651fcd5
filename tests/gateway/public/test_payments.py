"""`POST /v1/webhooks/payments/{seller}`, as a payment service calls it."""

from __future__ import annotations

import json

import pytest

from billing.invoices.months import list_invoices
from billing.parties import store as parties
from tests.billing.invoices.test_invoices import IN_NOVEMBER_US
from tests.billing.payments.test_stripe_event import SECRET, event, signed
from tests.billing.taxes.test_tax_rule import SELLER
from tests.gateway.admin.test_payments import number, one
from tests.gateway.api.asgi import Answer, answer, ask
from tests.gateway.edge import Edge

__all__ = ["number", "one"]
PATH = f"/v1/webhooks/payments/{SELLER.seller_id}"
PUT = f"/admin/v1/sellers/{SELLER.seller_id}/payment-secret"


async def told(one: Edge, body: bytes, signature: str, path: str = PATH) -> Answer:
    headers = {"stripe-signature": signature, "content-type": "application/json"}
    return await answer(one.app, "POST", path, body, headers=headers)


@pytest.fixture
async def seller(one: Edge, number: str) -> None:
    secret = json.dumps({"secret": SECRET}).encode()
    assert (await ask(one.app, "PUT", PUT, secret, "admin"))[0] == 404
    parties.put_seller(one.parts.ledger, SELLER, 1)
    assert (await ask(one.app, "PUT", PUT, secret, "admin"))[0] == 200


def paid_cents(one: Edge) -> int:
    (invoice,) = list_invoices(one.parts.ledger, now_us=IN_NOVEMBER_US)
    return invoice.paid_nanousd // 10**7


async def test_signed_payment_is_booked_once_and_others_are_refused(
    one: Edge, number: str, seller: None
) -> None:
    now_s = int(one.parts.outside.clock())
    meta = {"currency": "usd", "metadata": {"invoice": number}}
    body = event("charge.succeeded", id="ch_1", amount=50, **meta)
    first = await told(one, body, signed(body, now_s))
    assert first.status == 200 and first.json["payment"].startswith("pay_")
    for at_s in (now_s, now_s - 200):
        assert (await told(one, body, signed(body, at_s))).json == first.json
    for signature in ("", signed(body, now_s - 301), signed(body, now_s, "other")):
        refused = await told(one, body, signature)
        assert (refused.status, refused.json["error"]["code"]) == (400, "bad_signature")
    assert (await told(one, body, signed(body, now_s), PATH + "x")).status == 400
    unknown = meta | {"metadata": {"invoice": "x"}}
    other = event("customer.created", id="a")
    assert (await told(one, other, signed(other, now_s))).json["payment"] is None
    for wrong, status in (
        (event("charge.succeeded", id="ch_1", amount=51, **meta), 409),
        (event("charge.succeeded", id="ch_2", amount=1, **(meta | {"currency": "eur"})), 400),
        (event("charge.succeeded", id="ch_3", amount=1, **unknown), 400),
        (b"{}", 400),
    ):
        assert (await told(one, wrong, signed(wrong, now_s))).status == status
    assert paid_cents(one) == 50
