"""Budgets over windows on the real stack: many callers at once, an end user each, and what the
ledger says of them afterwards."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.journeys.calls import SMALL, nano, said
from tests.stack import Stack

PROMPT_NANO, OUTPUT_NANO = 50, 200
CALL_NANO = 20 * PROMPT_NANO + 16 * OUTPUT_NANO
WINDOWS = (
    {"kind": "day", "time_zone": "Asia/Kathmandu"},
    {"kind": "rolling", "seconds": 3600},
)


@pytest.mark.parametrize("window", WINDOWS, ids=["day", "rolling"])
def test_g21_hard_budget_is_never_overspent_by_many_at_once(
    stack: Stack, window: dict[str, object]
) -> None:
    tenant = stack.tenant()
    limit_nano = 6 * CALL_NANO
    made = stack.admin(
        "POST",
        "/budgets",
        {
            "scope": f"org:{tenant.organization}",
            "name": "the cap",
            "limit_usd": f"0.{limit_nano:09d}",
            "window": window,
            "alerts": [1],
        },
    )

    async def ask_all() -> list[object]:
        async with stack.async_openai(tenant.secret) as client:
            asked = [
                client.chat.completions.create(model=SMALL, messages=said(), max_tokens=16)
                for _ in range(20)
            ]
            return await asyncio.gather(*asked, return_exceptions=True)

    ended = asyncio.run(ask_all())
    refused = [end for end in ended if isinstance(end, BaseException)]
    answered = [end for end in ended if not isinstance(end, BaseException)]
    assert answered and refused
    assert {getattr(e, "code", e) for e in refused} == {"insufficient_quota"}
    spent_nano = sum(nano(answer.usage.cost) for answer in answered)  # type: ignore[attr-defined]
    assert 0 < spent_nano <= limit_nano
    stack.wait_quiet()
    state = stack.admin("GET", f"/budgets/{made['id']}")["state"]
    assert (nano(state["spent_usd"]), state["held_usd"]) == (spent_nano, "0.00")
    [alert] = stack.wait_until(
        lambda: stack.admin("GET", f"/budgets/alerts?budget={made['id']}")["data"],
        20.0,
        "the alert of the first percent",
    )
    assert (alert["percent"], alert["scope"]) == (1, made["scope"])


def test_each_end_user_has_a_budget_and_a_tenant_sees_its_own(stack: Stack) -> None:
    tenant = stack.tenant()
    scope = f"key:{tenant.key}/user:*"
    budget = {"scope": scope, "name": "each", "limit_usd": "0", "window": {"kind": "month"}}
    made = stack.admin("POST", "/budgets", budget)
    with stack.openai(tenant.secret, max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as unnamed:
            client.chat.completions.create(model=SMALL, messages=said())
        assert unnamed.value.code == "end_user_required"
        with pytest.raises(openai.RateLimitError) as poor:
            client.chat.completions.create(model=SMALL, messages=said(), user="alice")
        assert poor.value.code == "insufficient_quota"
        stack.admin("PATCH", f"/budgets/{made['id']}", {"limit_usd": "1"})
        client.chat.completions.create(model=SMALL, messages=said(), user="alice", max_tokens=4)
    told = stack.call("GET", "/v1/key", secret=tenant.secret).json()
    assert [budget["scope"] for budget in told["budgets"]] == [scope]
    alice = stack.admin("GET", f"/budgets/{made['id']}?end_user=alice")["state"]
    assert nano(alice["spent_usd"]) + nano(alice["held_usd"]) > 0
