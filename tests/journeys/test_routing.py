"""Who is chosen, and why: by tier, size and cost, readable afterwards by the tenant alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import openai
import pytest

from tests.journeys.calls import CHAT, LARGE, SMALL, body, nano, said
from tests.stack import Stack, Tenant

POOLS = {
    SMALL: {"small-reserved", "small-spot"},
    LARGE: {"large-reserved", "large-spot"},
}
CHOSEN = {"flex": "small-spot", "default": "small-reserved", "priority": "small-reserved"}
"""By tier, of two pools that are equally quick."""
ROUNDS = 5


def asked(stack: Stack, tenant: Tenant, wanted: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The response and what the ledger says of it, as the tenant reads it."""
    response = stack.call("POST", CHAT, secret=tenant.secret, json=wanted)
    assert response.status_code == 200, response.text
    rid = response.headers["x-request-id"]
    explained = stack.call("GET", f"/v1/generations/{rid}", secret=tenant.secret)
    assert explained.status_code == 200
    return response, explained.json()


def test_tier_chooses_between_cheap_and_safe_capacity(stack: Stack, tenant: Tenant) -> None:
    """In one round, by what both pools have just shown: a machine that was busy meanwhile may have
    made either of them slow."""
    for _ in range(ROUNDS):
        for pool in [*POOLS[SMALL]] * 2:
            asked(stack, tenant, body(max_tokens=8, provider={"only": [f"pool:{pool}"]}))
        answers = {
            tier: asked(stack, tenant, body(service_tier=tier, max_tokens=8)) for tier in CHOSEN
        }
        if {tier: explained["pool"] for tier, (_, explained) in answers.items()} == CHOSEN:
            break
    for tier, (response, explained) in answers.items():
        sums = stack.admin("GET", f"/requests/{explained['id']}")["candidates"]
        assert response.headers["x-sluice-pool"] == explained["pool"] == CHOSEN[tier], sums
        assert response.headers["x-sluice-tier"] == explained["service_tier"] == tier
        assert response.json()["service_tier"] == tier
        assert (explained["rule"], explained["policy_revision"]) == (tier, 1)


def test_tier_served_is_the_price_paid(stack: Stack, tenant: Tenant) -> None:
    def cost_nano(tier: str) -> int:
        wanted = body(service_tier=tier, max_tokens=8, temperature=0)
        return nano(asked(stack, tenant, wanted)[1]["cost_usd"])

    assert cost_nano("flex") * 2 == cost_nano("default")
    assert cost_nano("priority") * 4 == cost_nano("default") * 7


def test_auto_takes_the_cheap_model_or_the_good_one_by_tier(stack: Stack, tenant: Tenant) -> None:
    """Once both were seen: what is only guessed of one is no match for what is known of another."""
    for model in (SMALL, LARGE):
        for tier in ("flex", "default"):
            asked(stack, tenant, body(model, service_tier=tier, max_tokens=8))
    chosen = {
        tier: asked(stack, tenant, body("auto", service_tier=tier, max_tokens=8))
        for tier in ("flex", "priority")
    }
    sums = stack.admin("GET", f"/requests/{chosen['flex'][1]['id']}")["candidates"]
    assert chosen["flex"][1]["model"] == SMALL, sums
    assert chosen["priority"][1]["model"] == LARGE
    for tier, (response, explained) in chosen.items():
        assert response.json()["model"] == explained["model"]
        assert (explained["model_requested"], explained["rule"]) == ("auto", tier)
        named = {candidate["pool"] for candidate in explained["candidates"]}
        assert named >= POOLS[SMALL] | POOLS[LARGE], "every pool that could have been is there"


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_model_that_is_named_is_the_one_that_answers(
    stack: Stack, tenant: Tenant, model: str
) -> None:
    for tier in ("flex", "priority"):
        response, explained = asked(stack, tenant, body(model, service_tier=tier, max_tokens=4))
        assert response.json()["model"] == explained["model"] == model
        assert {c["pool"] for c in explained["candidates"]} == POOLS[model]


def test_every_candidate_says_why(stack: Stack, tenant: Tenant) -> None:
    response, explained = asked(stack, tenant, body("auto", max_tokens=4))
    candidates = explained["candidates"]
    assert all(candidate["reason"] and candidate["pool"] for candidate in candidates)
    eligible = [c for c in candidates if c["eligible"]]
    assert candidates[: len(eligible)] == eligible, "who may answer stands first"
    assert all(Decimal(candidate["price_usd"]) > 0 for candidate in eligible)
    told = stack.admin("GET", f"/requests/{explained['id']}")["candidates"]
    assert [candidate["pool"] for candidate in told] == [c["pool"] for c in candidates]
    scores = [Decimal(c["score_usd"]) for c in told if c["eligible"]]
    assert scores == sorted(scores), "the cheapest all told comes first"
    assert all(c["sum"] for c in told if c["eligible"])
    assert eligible[0]["pool"] == explained["pool"]
    first = f"{eligible[0]['pool']} {eligible[0]['reason']}"
    assert response.headers["x-sluice-decision"] == first
    [attempt] = explained["attempts"]
    assert (attempt["pool"], attempt["outcome"]) == (explained["pool"], "answered")
    times = [explained["timeline"][k] for k in ("admitted_at", "first_token_at", "ended_at")]
    assert times == sorted(times)
    assert explained["price_version"]


def test_pool_that_cannot_be_ready_in_time_says_so(stack: Stack, tenant: Tenant) -> None:
    stack.wait_until(lambda: not stack.replicas("large-spot"), 60, "large-spot to be cold")
    response = stack.call(
        "POST",
        CHAT,
        secret=tenant.secret,
        json=body(LARGE, max_tokens=4),
        headers={"x-sluice-deadline-ms": "2000"},
    )
    assert response.headers["x-sluice-pool"] == "large-reserved"
    explained = stack.generation(response.headers["x-request-id"])
    cold = next(c for c in explained["candidates"] if c["pool"] == "large-spot")
    assert not cold["eligible"]
    assert "deadline" in cold["reason"]


def test_generation_of_another_organization_is_not_there(stack: Stack, tenant: Tenant) -> None:
    _, explained = asked(stack, tenant, body(max_tokens=2))
    path = f"/v1/generations/{explained['id']}"
    other = stack.tenant()
    response = stack.call("GET", path, secret=other.secret)
    assert response.status_code == 404
    assert response.json()["error"].keys() == {"message", "type", "param", "code"}
    assert explained["id"] == stack.admin("GET", f"/requests/{explained['id']}")["id"]
    with stack.openai(tenant.secret) as client:
        assert client.get(f"/generations/{explained['id']}", cast_to=object)


def test_unknown_tier_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(model=SMALL, messages=said(), service_tier="scale")
    assert raised.value.param == "service_tier"
