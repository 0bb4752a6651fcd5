"""What a settled call adds to the ledger, as rows."""

from __future__ import annotations

from datetime import UTC, datetime

from billing.ledger.posting import posting
from billing.prices.rating import Charge
from tests.billing.calls import opened_call, settled_call


def test_a_call_belongs_to_the_month_in_which_it_was_admitted() -> None:
    """Its hold was taken from that month's budget, so its charge counts there, however late it
    ends."""
    admitted_us = round(datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC).timestamp() * 1e6)
    ended_us = admitted_us + 60_000_000
    opened = opened_call(admitted_us=admitted_us)
    call = settled_call(opened, ended_us=ended_us)
    made = posting(call, b"sha", Charge("pv_1"), None, ended_us)
    assert (made.usage["month"], made.usage["ended_us"]) == ("202601", ended_us)
