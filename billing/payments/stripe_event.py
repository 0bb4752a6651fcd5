"""A payment as Stripe tells it: signed, fresh, and as an event of which a few kinds are payments.

Pure. The header is `t=SECONDS,v1=HEX`, and the HMAC-SHA256 is of `SECONDS.BODY`. Two events of one
payment (a charge and its intent) name one external id.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

TOLERANCE_S = 300
SIGNATURES_MAX = 10
BODY_BYTES_MAX = 256 * 1024
CHARS_MAX = 200
PAYMENTS = {
    "payment_intent.succeeded": "amount_received",
    "charge.succeeded": "amount",
    "charge.captured": "amount_captured",
    "checkout.session.completed": "amount_total",
    "checkout.session.async_payment_succeeded": "amount_total",
}
"""Kinds of events that are payments, and the field of the amount, in cents."""
CAME = {"captured": True, "payment_status": "paid"}
"""What fields say, where they are there, once the money has come. Before, it is promised alone."""


class BadSignature(Exception):
    """Nobody who knows the secret has signed this body a short while ago."""


class BadEvent(ValueError):
    """The body is no event of a payment that can be booked."""


@dataclass(frozen=True, slots=True)
class StripePayment:
    external_id: str
    amount_cents: int
    currency: str
    invoice: str = ""
    """The id or the number of an invoice, by the metadata."""
    organization: str = ""
    """The one that it tops up, where the metadata names no invoice."""


def check_signature(header: str, body: bytes, secret: str, now_s: float) -> None:
    """Raises BadSignature."""
    pairs = [part.strip().partition("=") for part in header.split(",")[: SIGNATURES_MAX + 1]]
    times = [value for name, _, value in pairs if name == "t"]
    given = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit() and len(times[0]) <= 12):
        raise BadSignature("it has no time of its own")
    if abs(now_s - int(times[0])) > TOLERANCE_S:
        raise BadSignature(f"its time is more than {TOLERANCE_S} s away")
    expected = hmac.new(secret.encode(), f"{times[0]}.".encode() + body, sha256).hexdigest()
    if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in given):
        raise BadSignature("no signature is by the secret")


def payment_of(body: bytes) -> StripePayment | None:
    """None for an event that is no payment. Raises BadEvent."""
    try:
        event = json.loads(body)
        kind, sent = event["type"], event["data"]["object"]
        is_payment = kind in PAYMENTS and all(sent.get(f, v) == v for f, v in CAME.items())
        amount = sent[PAYMENTS[kind]] if is_payment else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as wrong:
        raise BadEvent("it is no event of Stripe's") from wrong
    if not is_payment:
        return None
    metadata = sent.get("metadata")
    names: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    kind_named = "organization" if names.get("invoice") is None else "invoice"
    named = names.get(kind_named)
    external_id = sent.get("payment_intent") or sent.get("id")
    currency = sent.get("currency")
    if not all(map(_is_text, (external_id, currency, named))):
        raise BadEvent(
            "it lacks an id, a currency, or one of metadata.invoice and metadata.organization"
        )
    if type(amount) is not int or not 0 < amount < 2**53:
        raise BadEvent("its amount is no positive integer")
    return StripePayment(external_id, amount, currency.upper(), **{kind_named: str(named)})


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= CHARS_MAX and value.isprintable()
