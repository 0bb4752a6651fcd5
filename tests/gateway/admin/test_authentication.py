"""Guesses of the admin key are answered one after another, and the right key is let in
meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.admin.wrong_keys import ADDRESSES_MAX, EVERY_S, QUEUE_S_MAX, WrongKeys
from tests.gateway.api.asgi import answer
from tests.gateway.edge import Edge
from tests.gateway.limits.test_limits import one

__all__ = ["one"]


@given(st.lists(st.floats(min_value=0, max_value=3), max_size=200))
def test_no_two_guesses_of_an_address_are_answered_within_the_interval(
    pauses_s: list[float],
) -> None:
    wrong, now_s, answered_s = WrongKeys(), 1e6, []
    for pause_s in pauses_s:
        now_s += pause_s
        wait_s = wrong.queue("a", now_s)
        assert wait_s <= QUEUE_S_MAX + EVERY_S
        if not wrong.full_for_s("a", now_s):
            answered_s.append(now_s + wait_s)
    assert len(answered_s) <= (now_s - 1e6 + QUEUE_S_MAX) / EVERY_S + 2


@given(st.integers(1, 500))
def test_full_queue_empties_as_told(guesses: int) -> None:
    wrong = WrongKeys()
    for _ in range(guesses):
        if not wrong.full_for_s("a", 0.0):
            wrong.queue("a", 0.0)
    wait_s = wrong.full_for_s("a", 0.0)
    assert bool(wait_s) == (guesses > QUEUE_S_MAX / EVERY_S)
    assert not wrong.full_for_s("a", wait_s + 1e-6)
    assert not wrong.full_for_s("b", 0.0), "another address has a queue of its own"


def test_who_has_shown_the_right_key_is_not_kept_out_by_guesses_of_its_address() -> None:
    wrong = WrongKeys()
    wrong.welcome("a", 0.0)
    for _ in range(200):
        wrong.queue("a", 0.0)
    assert not wrong.full_for_s("a", 0.0)


def test_addresses_that_are_remembered_are_bounded() -> None:
    wrong = WrongKeys()
    for number in range(ADDRESSES_MAX * 2):
        wrong.queue(str(number), 0.0)
        wrong.welcome(str(number), 0.0)
    assert len(wrong._free_s) == len(wrong._welcome_s) == ADDRESSES_MAX


async def ask(app: Any, path: str, key: str, address: str) -> tuple[int, dict[str, str]]:
    headers = {"authorization": f"Bearer {key}"}
    found = await answer(app, "GET", f"{path}?start_time=1", headers=headers, address=address)
    return found.status, found.headers


async def test_flood_of_guesses_is_turned_away_unread_and_others_are_let_in(one: Edge) -> None:
    """5,700 guesses a second were answered."""
    one.watch.stop()
    flood = [
        asyncio.create_task(ask(one.app, path, f"guess-{number}", "6.6.6.6"))
        for number in range(100)
        for path in ("/admin/v1/keys", "/metrics", "/v1/organization/costs")
    ]
    await asyncio.sleep(0)
    assert (await ask(one.app, "/admin/v1/keys", "admin", "1.1.1.1"))[0] == 200
    answers = await asyncio.gather(*flood)
    assert {status for status, _ in answers} == {401, 429}
    within = sum(status == 401 for status, _ in answers)
    assert within <= QUEUE_S_MAX / EVERY_S + 1
    assert all(int(h["retry-after"]) >= 1 for status, h in answers if status == 429)
    status, _ = await ask(one.app, "/admin/v1/keys", "admin", "6.6.6.6")
    assert status == 429, "an address that floods may not learn that it is right"
    one.watch.passed_s = 0.0
    one.watch.stands_at_s = one.watch() + QUEUE_S_MAX
    assert (await ask(one.app, "/admin/v1/keys", "admin", "6.6.6.6"))[0] == 200


async def test_keys_of_tenants_wait_for_nobody(one: Edge) -> None:
    """Usage is read with either key."""
    one.watch.stop()
    answers = [
        await ask(one.app, "/v1/organization/costs", "sk-sluice-0123456789abcdef", "1.1.1.1")
        for _ in range(100)
    ]
    assert {status for status, _ in answers} == {200}
