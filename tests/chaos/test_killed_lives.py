"""Parts are killed while a replica lives: the bill has every second of it, each of them once."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.journeys.calls import CHAT, NAP, body, nano
from tests.stack import Stack, Tenant

POOL = "nap"


@pytest.fixture
def tenant(stack: Stack) -> Tenant:
    stack.wait_takes_calls()
    return stack.tenant()


def is_told(stack: Stack) -> bool:
    """No replica of the pool lives, and the ledger knows of all that did."""
    if stack.replicas(POOL):
        return False
    with stack.redis() as client:
        open_lives = [json.loads(raw) for raw in client.hvals("sluice:lives:open")]
        on_its_way = client.xlen("sluice:lives")
    return not on_its_way and all(life["pool"] != POOL for life in open_lives)


def row_of_pool(stack: Stack) -> dict[str, Any]:
    rows = stack.admin("GET", "/margins?group_by=pool")["data"]
    nothing = {"replica_s": 0.0, "bill_usd": "0"}
    return next((row for row in rows if row["group"]["pool"] == POOL), nothing)


@pytest.mark.parametrize(
    "parts",
    [pytest.param(["controller"], marks=pytest.mark.long), ["controller", "ledger", "gateway"]],
)
def test_killed_parts_lose_no_second_of_a_replica_and_double_none(
    stack: Stack, tenant: Tenant, parts: list[str]
) -> None:
    stack.wait_until(lambda: is_told(stack), 90, "the pool to go to zero")
    before, begun_s = row_of_pool(stack), time.monotonic()
    wanted = body(NAP, max_tokens=8)
    assert stack.call("POST", CHAT, secret=tenant.secret, json=wanted).status_code == 200
    seen_s = time.monotonic()
    for part in parts:
        pid = stack.kill9(part)
        stack.wait_restarted(part, pid)
    stack.wait_takes_calls()
    looked_s = time.monotonic()
    alive_s = looked_s if stack.replicas(POOL, "WARM") else seen_s
    stack.wait_until(lambda: is_told(stack), 90, "the pool to go to zero again")
    after, ended_s = row_of_pool(stack), time.monotonic()

    lived_s = after["replica_s"] - before["replica_s"]
    assert alive_s - seen_s <= lived_s <= ended_s - begun_s
    billed = nano(after["bill_usd"]) - nano(before["bill_usd"])
    assert abs(billed - lived_s * 9_000_000) <= 10  # its price, but for a nano-dollar a life
    assert nano(after["cogs_usd"]) + nano(after["unallocated_usd"]) == nano(after["bill_usd"])
    status, report = stack.ledger_verify()
    assert status == 0, [check for check in report["checks"] if check["outcome"] != "holds"]
