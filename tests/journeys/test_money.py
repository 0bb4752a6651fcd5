"""From the meter to the invoice: the same nano-dollars in every place that tells of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.journeys.calls import (
    CHAT,
    LARGE,
    LONG_TEXT,
    SMALL,
    body,
    nano,
    opened,
    streamed,
)
from tests.journeys.outside import Outside
from tests.stack import Stack, Tenant

COMPONENTS = ("input", "cached_input", "output")


@pytest.fixture
def mixed(stack: Stack, tenant: Tenant, outside: Outside) -> list[dict[str, Any]]:
    """One tenant's calls of every kind and end, as the ledger has them."""
    for wanted in (
        body(SMALL, max_tokens=7),
        body(SMALL, service_tier="flex"),
        body(SMALL, service_tier="priority", max_tokens=3),
        body(LARGE, LONG_TEXT, max_tokens=5),
        body(LARGE, LONG_TEXT, max_tokens=5),
        body("auto", service_tier="flex", max_tokens=9),
        body("outside"),
    ):
        assert stack.call("POST", CHAT, secret=tenant.secret, json=wanted).status_code == 200
    streamed(stack, tenant, body(SMALL))
    with opened(stack, tenant, body(LARGE, max_tokens=200)) as left:
        next(left.iter_lines())
    assert stack.call("POST", CHAT, secret=tenant.secret, json=body("none")).status_code == 404
    found: list[dict[str, Any]] = stack.wait_until(
        lambda: (calls := stack.requests_of(tenant)) and len(calls) == 9 and calls,
        20.0,
        "nine calls in the ledger",
    )
    return found


def test_usage_charges_and_invoice_are_the_same_money(
    stack: Stack, tenant: Tenant, mixed: list[dict[str, Any]]
) -> None:
    spent_nano = sum(nano(call["cost_usd"]) for call in mixed)
    assert spent_nano > 0

    path = f"/usage?organization={tenant.organization}"
    [total] = stack.admin("GET", path)["data"]
    by_model = stack.admin("GET", f"{path}&group_by=model")["data"]
    assert total["requests"] == sum(row["requests"] for row in by_model) == len(mixed)
    assert nano(total["cost_usd"]) == sum(nano(row["cost_usd"]) for row in by_model) == spent_nano
    for component in COMPONENTS:
        assert total["usage"][component] == sum(call["usage"][component] for call in mixed)
    assert total["usage"]["cached_input"] > 0

    transfers = stack.admin("GET", f"/ledger/transfers?organization={tenant.organization}")["data"]
    assert {transfer["kind"] for transfer in transfers} == {"charge"}
    assert sum(nano(transfer["amount_usd"]) for transfer in transfers) == spent_nano
    assert {t["rid"] for t in transfers} == {c["id"] for c in mixed if nano(c["cost_usd"])}

    status, run = stack.invoices(mixed[0]["created_at"][:7])
    assert status == 0, "an open month gives drafts"
    [invoice] = [i for i in run["invoices"] if i["organization"] == tenant.organization]
    lines = [line for line in invoice["lines"] if line["kind"] == "usage"]
    assert invoice["status"] == "draft" and invoice["draft_because"]
    assert sum(line["amount_nanousd"] for line in lines) == spent_nano
    assert nano(invoice["subtotal_usd"]) == spent_nano
    assert (
        sum(line["amount_nanousd"] for line in invoice["lines"]) == invoice["total_cents"] * 10**7
    )
    for component in COMPONENTS:
        billed = sum(line["quantity"] for line in lines if line["component"] == component)
        assert billed == total["usage"][component]
    assert {line["project"] for line in lines} == {tenant.project}


@pytest.mark.usefixtures("mixed")
def test_every_law_of_money_holds(stack: Stack) -> None:
    status, report = stack.ledger_verify()
    broken = [check for check in report["checks"] if check["outcome"] != "holds"]
    assert (status, broken) == (0, [])
    checked = {check["name"]: check["checked"] for check in report["checks"]}
    assert checked["I4 amounts_rerate"] > 0, "it looked at something"
    assert checked["I15 nothing_missing"] > 0
    assert checked["I11 spent_in_redis"] > 0


def test_price_change_applies_to_calls_after_it(stack: Stack, tenant: Tenant) -> None:
    """A call keeps the version it was admitted with; the next one has the new version."""

    def ask() -> dict[str, Any]:
        wanted = body(SMALL, max_tokens=4, temperature=0, service_tier="flex")
        response = stack.call("POST", CHAT, secret=tenant.secret, json=wanted)
        return stack.generation(response.headers["x-request-id"])

    before = ask()
    old = stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"]["flex"]
    double = {k: str(2 * nano(v) / 10**9) for k, v in old.items() if k in COMPONENTS}
    stack.add_prices(SMALL, double, tier="flex")
    stack.wait_until(
        lambda: stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"]["flex"] != old,
        20.0,
        "the new price",
    )
    after = ask()
    assert before["usage"] == after["usage"]
    assert nano(after["cost_usd"]) == 2 * nano(before["cost_usd"])
    assert before["price_version"] != after["price_version"]
    assert stack.generation(before["id"])["cost_usd"] == before["cost_usd"]
    stack.add_prices(SMALL, {k: old[k] for k in COMPONENTS}, tier="flex")
    stack.wait_until(
        lambda: stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"]["flex"] == old,
        20.0,
        "the old price",
    )
