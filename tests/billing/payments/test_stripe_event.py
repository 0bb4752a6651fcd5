"""Signatures of payments: forged, stale and strange ones are refused."""

from __future__ import annotations

import hmac
import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.payments.stripe_event import (
    BadEvent,
    BadSignature,
    StripePayment,
    check_signature,
    payment_of,
)

SECRET = "whsec_0123456789abcdef"
NOW_S = 1_800_000_000


def signed(body: bytes, at_s: int = NOW_S, secret: str = SECRET) -> str:
    made = hmac.new(secret.encode(), f"{at_s}.".encode() + body, sha256).hexdigest()
    return f"t={at_s},v1={made}"


@settings(max_examples=30)
@given(st.binary(max_size=40), st.integers(-400, 400))
def test_a_signature_holds_for_its_body_and_five_minutes(body: bytes, late_s: int) -> None:
    header = signed(body)
    if abs(late_s) <= 300:
        check_signature(header, body, SECRET, NOW_S + late_s)
        check_signature("v1=0," + header + ",v0=1", body, SECRET, NOW_S)
        with pytest.raises(BadSignature):
            check_signature(header, body + b" ", SECRET, NOW_S)
    else:
        with pytest.raises(BadSignature, match="300 s"):
            check_signature(header, body, SECRET, NOW_S + late_s)


@pytest.mark.parametrize(
    "header",
    [
        *("", "t=", f"t={NOW_S}", f"t={NOW_S},v1=", f"t={NOW_S},v1=\u00e9", "v1=0", "t=-1,v1=0"),
        *(
            f"t={NOW_S},t=1,v1=0",
            f"t=1{'0' * 4000},v1=0",
            signed(b"{}", secret="other"),
            "t=\u0663",
        ),
    ],
)
def test_a_header_that_does_not_hold_is_refused(header: str) -> None:
    with pytest.raises(BadSignature):
        check_signature(header, b"{}", SECRET, NOW_S)


def event(kind: str, **told: Any) -> bytes:
    return json.dumps({"type": kind, "data": {"object": told}}).encode()


META = {"invoice": "SLU-2026-000001"}


def test_events_of_one_payment_name_one_external_id() -> None:
    expected = StripePayment("pi_1", 150, "USD", "SLU-2026-000001")
    common = {"currency": "usd", "metadata": META}
    for body in (
        event("payment_intent.succeeded", id="pi_1", amount_received=150, **common),
        event("charge.succeeded", id="ch_1", payment_intent="pi_1", amount=150, **common),
        event(
            "checkout.session.completed",
            id="cs_1",
            payment_intent="pi_1",
            amount_total=150,
            **common,
        ),
    ):
        assert payment_of(body) == expected
    assert payment_of(event("customer.created", id="a")) is None


NOT_YET: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a session whose money is on its way": (
        {"type": "checkout.session.completed", "amount_total": 150, "payment_status": "unpaid"},
        {"type": "checkout.session.async_payment_succeeded", "payment_status": "paid"},
    ),
    "a charge that is not captured": (
        {"type": "charge.succeeded", "amount": 200, "captured": False},
        {"type": "charge.captured", "amount_captured": 150, "captured": True},
    ),
}


@pytest.mark.parametrize(("before", "then"), NOT_YET.values(), ids=NOT_YET.keys())
def test_money_is_booked_once_it_has_come(before: dict[str, Any], then: dict[str, Any]) -> None:
    common = {"id": "a", "payment_intent": "pi_1", "currency": "usd", "metadata": META}
    promised, came = common | before, common | before | then
    assert payment_of(event(promised.pop("type"), **promised)) is None
    payment = StripePayment("pi_1", 150, "USD", "SLU-2026-000001")
    assert payment_of(event(came.pop("type"), **came)) == payment


def test_a_session_in_which_nothing_is_to_pay_is_no_payment() -> None:
    free = {"id": "cs_1", "amount_total": 0, "payment_status": "no_payment_required"}
    assert payment_of(event("checkout.session.completed", **free)) is None


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{}", b"\xff", b'{"type": [], "data": {"object": {}}}', b"[" * 100_000),
        event("payment_intent.succeeded", id="pi_1", currency="usd", metadata=META),
        event("charge.succeeded", id="a", amount=1.5, currency="usd", metadata=META),
        event("charge.succeeded", id="a", amount=True, currency="usd", metadata=META),
        event("charge.succeeded", id="a", amount=-1, currency="usd", metadata=META),
        event("charge.succeeded", id="a", amount=1, currency="usd", metadata=[]),
        event("charge.succeeded", id="a" * 500, amount=1, currency="usd", metadata=META),
    ],
)
def test_what_is_no_payment_that_can_be_booked_is_refused(body: bytes) -> None:
    with pytest.raises(BadEvent):
        payment_of(body)
