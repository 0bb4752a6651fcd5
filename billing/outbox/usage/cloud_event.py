"""A booked record of a call as a CloudEvent (version 1.0, JSON).

Pure. The sum of `change_nanousd` over events of different ids is what the ledger has booked. What a
call cost us is never in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from billing.outbox.event import instant
from billing.types import COUNTS

CONTENT_TYPE = "application/cloudevents-batch+json; charset=utf-8"
SOURCE = "/sluice/ledger"
RECORDED = "sluice.usage.recorded.v1"
CORRECTED = "sluice.usage.corrected.v1"
ALWAYS = ("input", "cached_input", "output")
"""Other classes are there where a call has them."""

Record = Mapping[str, Any]


def batch_of(records: Iterable[Record]) -> bytes:
    return json.dumps([cloud_event(each) for each in records], separators=(",", ":")).encode()


def cloud_event(record: Record) -> dict[str, Any]:
    """`n` of a record is 1 for the first one of a call."""
    rid, n = record["rid"], record["n"]
    return {
        "specversion": "1.0",
        "id": _id(rid, n),
        "source": SOURCE,
        "type": RECORDED if n == 1 else CORRECTED,
        "subject": record["org"],
        "time": instant(record["ended_us"]),
        "datacontenttype": "application/json",
        "data": {
            "call": rid,
            **({"corrects": _id(rid, n - 1)} if n > 1 else {}),
            "organization": record["org"],
            "project": record["project"],
            "key": record["key"],
            "model": record["model"],
            "tier": record["tier"],
            "batch": bool(record["batch"]),
            "status": record["status"],
            "usage_source": record["source"],
            "simulated": bool(record["is_simulated"]),
            "usage": _usage(record),
            "price_version": record["price_version"],
            "amount_nanousd": record["amount_nanousd"],
            "change_nanousd": record["change_nanousd"],
            "admitted_at": instant(record["admitted_us"]),
            "ended_at": instant(record["ended_us"]),
        },
    }


def _id(rid: str, n: int) -> str:
    return rid if n == 1 else f"{rid}:{n}"


def _usage(record: Record) -> dict[str, Any]:
    counts = {name: record[name] for name in COUNTS if name in ALWAYS or record[name]}
    return counts | ({"unit": record["unit"]} if record["units"] else {})
