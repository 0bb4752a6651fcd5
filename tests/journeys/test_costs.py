"""What a pool costs that starts for one caller, idles and goes: every nano-dollar has its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.journeys.calls import CHAT, NAP, body, nano
from tests.stack import Stack, Tenant

POOL = "nap"


def is_told(stack: Stack) -> bool:
    """No replica of the pool lives, and the ledger knows of all that did."""
    if stack.replicas(POOL):
        return False
    with stack.redis() as client:
        open_lives = [json.loads(raw) for raw in client.hvals("sluice:lives:open")]
        on_its_way = client.xlen("sluice:lives")
    return not on_its_way and all(life["pool"] != POOL for life in open_lives)


def row_of(stack: Stack, group_by: str, name: str) -> dict[str, Any]:
    rows = stack.admin("GET", f"/margins?group_by={group_by}")["data"]
    [row] = [row for row in rows if row["group"][group_by] == name]
    return dict(row)


@pytest.mark.parametrize("way", ["whole", "stream"])
def test_pool_that_starts_for_one_call_and_goes_again_costs_its_whole_life(
    stack: Stack, tenant: Tenant, way: str
) -> None:
    stack.wait_until(lambda: is_told(stack), 90, "the pool to go to zero")
    before = row_of(stack, "pool", POOL) if way == "stream" else None
    wanted = body(NAP, max_tokens=8, stream=way == "stream")
    response = stack.call("POST", CHAT, secret=tenant.secret, json=wanted)
    assert response.status_code == 200
    stack.wait_until(lambda: is_told(stack), 90, "the pool to go to zero again")

    row = row_of(stack, "pool", POOL)
    parts = ("idle_usd", "cold_start_usd", "wasted_usd", "unrecorded_usd")
    assert nano(row["idle_usd"]) > 0 and nano(row["cold_start_usd"]) > 0
    assert nano(row["unrecorded_usd"]) >= 0  # its calls share no more than it computed
    assert sum(nano(row[name]) for name in parts) == nano(row["unallocated_usd"])
    assert nano(row["cogs_usd"]) + nano(row["unallocated_usd"]) == nano(row["bill_usd"])
    if before is not None:
        assert nano(row["bill_usd"]) > nano(before["bill_usd"])

    told = stack.admin("GET", f"/requests/{response.headers['x-request-id']}")
    assert nano(told["cogs"]["cogs_usd"]) > 0
    [attempt] = told["attempts"]
    assert attempt["served"] and attempt["cogs_usd"] == told["cogs"]["cogs_usd"]
    earned = nano(told["cost_usd"]) - nano(told["cogs"]["cogs_usd"])
    assert earned == nano(told["cogs"]["margin_usd"])
    mine = row_of(stack, "organization", tenant.organization)
    assert mine["cogs_usd"] == told["cogs"]["cogs_usd"] and "bill_usd" not in mine

    accounts = {a["code"]: a for a in stack.admin("GET", "/ledger/accounts")["data"]}
    owed = accounts[f"payable:pool:{POOL}"]
    assert nano(owed["credits_usd"]) - nano(owed["debits_usd"]) == nano(row["bill_usd"])
    status, report = stack.ledger_verify()
    assert status == 0, [check for check in report["checks"] if check["outcome"] != "holds"]


def test_margins_of_pools_add_up_to_the_fleet_and_tenants_are_told_nothing(
    stack: Stack, tenant: Tenant
) -> None:
    answer = stack.call("POST", CHAT, secret=tenant.secret, json=body(NAP, max_tokens=4))
    rid = answer.headers["x-request-id"]
    stack.wait_until(
        lambda: stack.admin("GET", "/margins?group_by=organization")["data"], 60, "a margin"
    )
    told = stack.admin("GET", "/margins?group_by=pool")
    assert sum(nano(r["bill_usd"]) for r in told["data"]) == nano(told["fleet"]["bill_usd"])
    stack.wait_until(lambda: stack.requests_of(tenant), 60, "the call in the ledger")
    own = stack.call("GET", f"/v1/generations/{rid}", secret=tenant.secret).json()
    assert "cogs" not in own and all("cogs_usd" not in one for one in own["attempts"])
