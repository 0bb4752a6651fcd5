"""What tests of usage share: calls that are booked, endpoints that take usage, and what arrived."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select

from billing.db.engine import Store
from billing.ledger import booking, posting
from billing.ledger.booking import Record
from billing.ledger.store import TRANSFER
from billing.outbox import store as rows
from billing.outbox.usage import places
from billing.prices.book import PriceVersion, make_book
from billing.types import encode
from billing.usage.store import CORRECTION, EVENT
from tests.billing.calls import opened_call, settled_call
from tests.billing.outbox.test_outbox import START_S
from tests.laws.test_ledger_laws import RATES

BOOK = make_book([PriceVersion("pv_1", 1, None, tuple(RATES))])
START_US = int(START_S * 1e6)


def book(store: Store, now_us: int, *calls: Mapping[str, Any]) -> None:
    """Book calls in one batch: of each its `rid`, and what is special about it."""
    records = []
    for place, special in enumerate(calls):
        changes = {"ended_us": now_us, **special}
        rid, org = changes.pop("rid"), changes.pop("org", "org_1")
        call = settled_call(opened_call(rid, org=org), 0, **changes)
        amount = posting.charge_for(call, BOOK).amount_nanousd
        payload = encode(settled_call(opened_call(rid, org=org), amount, **changes))
        records.append(Record(0, f"{now_us}-{place}", "settled", rid, payload))
    with store.write() as conn:
        assert not booking.book(conn, booking.read(records, BOOK, now_us)).failures


def follow(store: Store, *endpoints: str) -> int:
    """Have endpoints take usage from here on. The place from which the last one does."""
    with store.write() as conn:
        for name in endpoints:
            row = rows.endpoint(conn, name)
            assert row is not None
            places.follow(conn, row, START_US)
        return places.newest(conn) or 0


def once(bodies: Iterable[bytes]) -> dict[str, dict[str, Any]]:
    """The events of batches, each id once, in the order in which they arrived first."""
    events: dict[str, dict[str, Any]] = {}
    for body in bodies:
        for event in json.loads(body):
            assert events.setdefault(event["id"], event) == event
    return events


def told(events: Mapping[str, dict[str, Any]]) -> dict[str, int]:
    """By call what its events say that was charged, in net."""
    net: dict[str, int] = {}
    for event in events.values():
        call = event["data"]["call"]
        net[call] = net.get(call, 0) + event["data"]["change_nanousd"]
    return net


def booked(store: Store, org: str, after_us: int) -> dict[str, int]:
    """By call what the ledger has booked behind a place, in net. Calls for nothing have 0."""
    net: dict[str, int] = {}
    with store.read() as conn:
        for table in (EVENT, CORRECTION):
            calls = select(table.c.rid, table.c.org).where(table.c.ingested_us > after_us)
            net |= {rid: 0 for rid, owner in conn.execute(calls) if org in ("", owner)}
        moved = select(TRANSFER).where(TRANSFER.c.kind.in_(("charge", "reversal")))
        for row in conn.execute(moved.where(TRANSFER.c.created_us > after_us)).mappings():
            if org in ("", row["org"]):
                sign = 1 if row["kind"] == "charge" else -1
                net[row["rid"]] += sign * row["amount_nanousd"]
    return net
