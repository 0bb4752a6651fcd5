"""A rule holds on the real parts: flex waits for its cheap cold pool beside a warm dear one and is
served there, priority never waits, and a tenant that is bound to a region never leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.journeys.calls import CHAT, LARGE, SMALL, body
from tests.stack import Stack, Tenant

DEAR, CHEAP = "large-reserved", "large-spot"
HERE = "eu-test"


@pytest.fixture
def dear(stack: Stack) -> Iterator[None]:
    """A second of the warm pool costs 10 USD, so that waiting is cheaper by far."""
    stack.admin("PATCH", f"/pools/{DEAR}", {"cost_usd_per_s": "10"})
    yield
    stack.admin("PATCH", f"/pools/{DEAR}", {"cost_usd_per_s": "0.00009"})


def quoted_first(stack: Stack, tenant: Tenant, tier: str) -> str:
    """The pool that a call of this tier would go to now."""
    wanted = {"url": CHAT, "body": body(LARGE, service_tier=tier, max_tokens=4)}
    response = stack.call("POST", "/v1/quote", secret=tenant.secret, json=wanted)
    assert response.status_code == 200, response.text
    return str(response.json()["candidates"][0]["pool"])


def pool_of(stack: Stack, tenant: Tenant, tier: str) -> str:
    wanted = body(LARGE, service_tier=tier, max_tokens=4)
    response = stack.call("POST", CHAT, secret=tenant.secret, json=wanted)
    assert response.status_code == 200, response.text
    return str(response.headers["x-sluice-pool"])


@pytest.mark.usefixtures("dear")
@pytest.mark.parametrize(
    ("rounds", "at_once"),
    [(1, 1), pytest.param(10, 10, marks=pytest.mark.long)],
    ids=["once", "hundred"],
)
def test_flex_waits_for_its_cheap_cold_pool_and_priority_never_does(
    stack: Stack, tenant: Tenant, rounds: int, at_once: int
) -> None:
    """In each round the pool is cold again, which takes some 20 s on a host that is loaded."""
    for _ in range(rounds):
        stack.wait_until(lambda: not stack.replicas(CHEAP), 120, "the cheap pool to be cold")
        stack.wait_until(
            lambda: quoted_first(stack, tenant, "flex") == CHEAP, 60, "the price to be known"
        )
        assert pool_of(stack, tenant, "priority") == DEAR
        with ThreadPoolExecutor(at_once) as callers:
            served = [callers.submit(pool_of, stack, tenant, "flex") for _ in range(at_once)]
        assert [each.result() for each in served] == [CHEAP] * at_once


def test_a_tenant_that_is_bound_to_a_region_never_leaves_it(stack: Stack) -> None:
    tenant = stack.tenant()
    stack.admin("PATCH", f"/pools/{DEAR}", {"region": HERE})
    stack.admin("PUT", f"/entitlements/org:{tenant.organization}", {"regions": [HERE]})
    try:
        stack.wait_until(
            lambda: quoted_first(stack, tenant, "default") == DEAR, 60, "the region to be known"
        )
        for tier in ("flex", "default", "priority"):
            assert pool_of(stack, tenant, tier) == DEAR
            refused = stack.call(
                "POST", CHAT, secret=tenant.secret, json=body(SMALL, service_tier=tier)
            )
            assert refused.status_code == 403
            assert refused.json()["error"]["code"] == "region_not_allowed"
    finally:
        stack.admin("PATCH", f"/pools/{DEAR}", {"region": None})
