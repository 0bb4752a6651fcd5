"""Events of the outbox, their signatures and when they are sent again.

Pure. Bodies and signatures follow Standard Webhooks: the id of an event is the same however often
it is sent, and a receiver knows a repetition by it.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from hashlib import sha256
from typing import Any

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 24
SECOND_US = 1_000_000
PAUSES_S = (
    *(5, 30, 120, 300, 900, 1_800, 3_600, 7_200, 14_400),
    *(28_800, 43_200, 64_800, 94_045),
)
"""Between tries: the last one comes three days after the first."""


class EventType(StrEnum):
    INVOICE_ISSUED = "invoice.issued"
    INVOICE_PAID = "invoice.paid"
    INVOICE_VOIDED = "invoice.voided"
    INVOICE_OVERDUE = "invoice.overdue"
    ORGANIZATION_SUSPENDED = "organization.suspended"
    ORGANIZATION_REINSTATED = "organization.reinstated"
    PAYMENT_RECEIVED = "payment.received"
    USAGE = "usage"
    """A batch of calls. It is in no list that leaves it out: `[]` does not mean it."""


@dataclass(frozen=True, slots=True)
class OutboxEvent:
    """Something that happened to an object of an organization. `turn` tells events of one type and
    object apart, where it can happen again."""

    type: EventType
    org: str
    object_id: str
    data: Mapping[str, Any]
    at_us: int
    turn: str = ""

    @property
    def event_id(self) -> str:
        named = f"{self.type}\n{self.object_id}\n{self.turn}"
        return f"evt_{sha256(named.encode()).hexdigest()[:24]}"

    @property
    def body(self) -> str:
        head = {"type": self.type.value, "timestamp": instant(self.at_us)}
        return json.dumps(head | {"data": dict(self.data)}, separators=(",", ":"))


def instant(at_us: int) -> str:
    """ISO 8601."""
    at = datetime.fromtimestamp(at_us / SECOND_US, UTC)
    return at.isoformat().replace("+00:00", "Z")


def new_secret(entropy: bytes) -> str:
    return SECRET_PREFIX + base64.b64encode(entropy).decode()


def signed_headers(
    secrets: Iterable[str], event_id: str, body: bytes, now_us: int
) -> dict[str, str]:
    """One signature for each secret: while one is rotated, both hold."""
    timestamp = str(now_us // SECOND_US)
    to_sign = b".".join((event_id.encode(), timestamp.encode(), body))
    return {
        "webhook-id": event_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{_signature(each, to_sign)}" for each in secrets),
    }


def next_try_us(tries: int, now_us: int) -> int | None:
    """When to send again after so many tries that failed. None: no more."""
    return now_us + PAUSES_S[tries - 1] * SECOND_US if tries <= len(PAUSES_S) else None


def _signature(secret: str, to_sign: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    return base64.b64encode(hmac.new(key, to_sign, sha256).digest()).decode()
