"""What is looked at is found by an index: every route that reads, with calls in the ledger."""

from __future__ import annotations

import re

import httpx2 as httpx

from tests.billing.plans import SORTED, planned
from tests.gateway.admin.test_usage import DAY_S, MIDNIGHT_S, client, one
from tests.gateway.api.test_described import flat
from tests.gateway.edge import Edge

__all__ = ["one"]

LOG = {"usage_event", "usage_correction", "transfer", "call_record", "attempt", "usage_budget"}
EVERYTHING = {"/admin/v1/ledger/verify"}
"""What is there to look at every row, in its own short snapshots."""
SPAN = f"start_time={MIDNIGHT_S}&end_time={MIDNIGHT_S + 2 * DAY_S}"
QUERIES = {
    "/admin/v1/usage": ["", SPAN, f"{SPAN}&bucket_width=1h&group_by=key", f"{SPAN}&organization=o"],
    "/admin/v1/ledger/transfers": ["", "organization=o"],
    "/admin/v1/margins": ["", SPAN, f"{SPAN}&group_by=model"],
    "/v1/organization/costs": [SPAN],
    "/v1/organization/usage/completions": [SPAN, f"{SPAN}&bucket_width=1m"],
    "/v1/organization/usage/embeddings": [SPAN],
}


def reading(one: Edge) -> list[str]:
    """Every GET, with what it may be asked and the name of something in place of parameters."""
    targets = []
    for route in flat(one.app.router.routes):
        if "GET" in route.methods and route.path not in EVERYTHING:
            named = re.sub(r"\{[^}]*\}", "r1", route.path)
            targets += [f"{named}?{query}" for query in QUERIES.get(route.path, [""])]
    return targets


async def test_g46_no_page_and_no_call_looks_through_the_log(one: Edge) -> None:
    """A look that no condition leads walks an index in its order and ends at a limit."""
    statuses: dict[str, int] = {}
    async with client(one) as http:
        await sign_in(http)
        with planned(one.parts.ledger) as found:
            for target in reading(one):
                headers = {"authorization": "Bearer admin"}
                answer = await http.get(f"http://gateway{target}", headers=headers)
                statuses[target] = answer.status_code
    assert len(statuses) > 40 and max(statuses.values()) < 500, statuses
    assert statuses["/console?"] == statuses["/console/calls/r1?"] == 200, statuses
    asked = [target for target in statuses if target.partition("?")[0] in QUERIES]
    assert all(statuses[target] == 200 for target in asked), statuses
    looked_into = {look.table for look in found}
    assert {"usage_org_day", "usage_hour", "usage_event", "transfer"} <= looked_into
    by_hand = {look.statement for look in found if look.table == SORTED}
    for look in found:
        if look.table in LOG and not look.led_by:
            assert "LIMIT" in look.statement and look.statement not in by_hand, look


async def sign_in(http: httpx.AsyncClient) -> None:
    answer = await http.post(
        "http://gateway/console/login",
        data={"key": "admin"},
        headers={"origin": "http://gateway"},
    )
    assert answer.status_code == 303, answer.text
