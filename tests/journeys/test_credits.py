"""Money that was given before it is used: up to its end, to the nano-dollar, and on the invoice."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from tests.journeys.calls import CHAT, SMALL, body, chunks_of, nano, said, streamed
from tests.stack import Stack, Tenant

PROMPT_NANO, OUTPUT_NANO = 50, 200
"""Price of one token of sluice-small at the default tier."""
GIFT_NANO = 12 * PROMPT_NANO + 40 * OUTPUT_NANO
TOP_UP_NANO = 10**9


def prepaid(stack: Stack) -> Tenant:
    tenant = stack.tenant()
    settled = {"settlement_mode": "prepaid"}
    stack.admin("PATCH", f"/organizations/{tenant.organization}", settled)
    return tenant


def give(stack: Stack, tenant: Tenant, grant_id: str, category: str, amount_nano: int) -> None:
    grant = {
        "id": f"{tenant.organization}-{grant_id}",
        "organization": tenant.organization,
        "category": category,
        "amount_usd": f"{amount_nano // 10**9}.{amount_nano % 10**9:09d}",
    }
    stack.admin("POST", "/credits", grant)
    stack.admin("POST", "/credits", grant)  # a request that is sent again gives nothing more


def credits_of(stack: Stack, tenant: Tenant) -> dict[str, Any]:
    told: dict[str, Any] = stack.call("GET", "/v1/credits", secret=tenant.secret).json()
    return told


def left(told: dict[str, Any]) -> dict[str, int]:
    return {g["id"].rpartition("-")[2]: nano(g["remaining_usd"]) for g in told["grants"]}


def refused_for_want_of_money(stack: Stack, tenant: Tenant) -> None:
    with (
        stack.openai(tenant.secret, max_retries=2) as client,
        pytest.raises(openai.RateLimitError) as raised,
    ):
        client.chat.completions.create(model=SMALL, messages=said(), max_tokens=40)
    assert raised.value.code == "insufficient_quota"
    assert raised.value.response.headers["x-should-retry"] == "false"


def test_g50_prepaid_credit_runs_dry_in_an_answer_and_a_top_up_lets_calls_go_on(
    stack: Stack,
) -> None:
    tenant = prepaid(stack)
    refused_for_want_of_money(stack, tenant)
    give(stack, tenant, "gift", "promotional", GIFT_NANO)

    wanted = body(temperature=0, max_tokens=200, stream_options={"include_usage": True})
    found = streamed(stack, tenant, wanted)
    *chunks, last = chunks_of(found)
    assert found[-1] == "[DONE]"
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["sluice"] == {"stop_reason": "budget_exhausted"}
    dry_nano = nano(last["usage"]["cost"])
    assert 0 < dry_nano <= GIFT_NANO
    refused_for_want_of_money(stack, tenant)

    give(stack, tenant, "topup", "paid", TOP_UP_NANO)
    answer = stack.call("POST", CHAT, secret=tenant.secret, json=body(max_tokens=60))
    assert answer.status_code == 200
    spent_nano = dry_nano + nano(answer.json()["usage"]["cost"])

    booked = stack.wait_until(
        lambda: (calls := stack.requests_of(tenant)) and len(calls) == 2 and calls,
        20.0,
        "both calls in the ledger",
    )
    assert sum(nano(call["cost_usd"]) for call in booked) == spent_nano
    told = credits_of(stack, tenant)
    assert nano(told["balance_usd"]) == GIFT_NANO + TOP_UP_NANO - spent_nano
    assert told["held_usd"] == "0.00" and told["available_usd"] == told["balance_usd"]
    assert told["data"] == {
        "total_credits": (GIFT_NANO + TOP_UP_NANO) / 1e9,
        "total_usage": spent_nano / 1e9,
    }
    assert sum(left(told).values()) == GIFT_NANO + TOP_UP_NANO - spent_nano
    assert left(told)["gift"] == max(0, GIFT_NANO - spent_nano), "promotional credit pays first"

    _, run = stack.invoices(booked[0]["created_at"][:7])
    [invoice] = [i for i in run["invoices"] if i["organization"] == tenant.organization]
    by_kind = {kind: 0 for kind in ("usage", "credit")}
    for line in invoice["lines"]:
        by_kind[line["kind"]] += line["amount_nanousd"]
    assert by_kind == {"usage": spent_nano, "credit": -spent_nano}
    assert invoice["total_cents"] == 0

    status, report = stack.ledger_verify()
    broken = [check for check in report["checks"] if check["outcome"] != "holds"]
    assert (status, broken) == (0, [])
    assert {check["name"] for check in report["checks"]} >= {"I7 burn_order", "I7 credits_cleared"}


def test_g21_prepaid_credit_is_never_overspent_by_many_at_once(stack: Stack) -> None:
    tenant = prepaid(stack)
    credit_nano = 4 * (20 * PROMPT_NANO + 16 * OUTPUT_NANO)
    give(stack, tenant, "g", "paid", credit_nano)

    async def ask_all() -> list[object]:
        async with stack.async_openai(tenant.secret) as client:
            asked = [
                client.chat.completions.create(model=SMALL, messages=said(), max_tokens=16)
                for _ in range(30)
            ]
            return await asyncio.gather(*asked, return_exceptions=True)

    ended = asyncio.run(ask_all())
    refused = [end for end in ended if isinstance(end, openai.RateLimitError)]
    answered: list[Any] = [end for end in ended if not isinstance(end, BaseException)]
    assert answered and refused and len(answered) + len(refused) == len(ended)
    assert {error.code for error in refused} == {"insufficient_quota"}
    spent_nano = sum(nano(answer.usage.cost) for answer in answered)
    assert 0 < spent_nano <= credit_nano
    stack.wait_quiet()
    assert nano(credits_of(stack, tenant)["balance_usd"]) == credit_nano - spent_nano
