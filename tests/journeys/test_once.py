"""Calls that are sent again under an `Idempotency-Key`, by the official client: the real stack."""

from __future__ import annotations

from tests.journeys.calls import LARGE, SMALL, body, chunks_of, opened, rid_of, said, streamed
from tests.stack import Stack, Tenant

KEY = {"Idempotency-Key": "order 17"}


def booked(stack: Stack, tenant: Tenant) -> list[dict[str, object]]:
    stack.wait_booked()
    calls: list[dict[str, object]] = stack.requests_of(tenant)
    return calls


def test_g20_call_that_the_client_sends_again_is_the_same_answer_and_one_charge(
    stack: Stack, tenant: Tenant
) -> None:
    with stack.openai(tenant.secret) as client:
        first, second = (
            client.chat.completions.create(
                model=SMALL, messages=said(), max_tokens=8, extra_headers=KEY
            )
            for _ in range(2)
        )
    assert first == second
    (call,) = booked(stack, tenant)
    assert call["id"] == rid_of(first.id)


def test_stream_that_was_left_is_had_whole_by_sending_it_again(
    stack: Stack, tenant: Tenant
) -> None:
    wanted = body(LARGE, temperature=0, max_tokens=60)
    with opened(stack, tenant, wanted, headers=KEY) as response:
        lines = response.iter_lines()
        while "content" not in next(lines):
            pass
    again = streamed(stack, tenant, wanted, headers=KEY)
    assert again[-1] == "[DONE]"
    assert chunks_of(again)[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    (call,) = booked(stack, tenant)
    assert call["status"] == "answered", "the run went on without its client"
